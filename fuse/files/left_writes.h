// After a crash: data that the killed program had written behind and not sent. The kernel had its
// answer, so its pages have the data. It sends them back on request
// (FUSE_NOTIFY_RETRIEVE). Until the server has it, it is outstanding in BehindTable, so that no
// request can see that it is missing.
// Thread-safe: the main thread fills it, and any worker may get what the kernel sends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "fuse/files/open_files.h"

namespace dafs::fuse {

class LeftWrites {
 public:
  struct Part {
    std::shared_ptr<OpenState> open;
    uint64_t offset = 0;
    uint32_t size = 0;
    uint32_t live_slot = 0;  // LiveFiles
  };
  // The number under which the kernel sends it: none of its requests has that.
  uint64_t Add(Part part) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const uint64_t number = kFirst + parts_.size();
    parts_.emplace(number, std::move(part));
    return number;
  }
  // nullopt: there is none, or it was taken.
  std::optional<Part> Take(uint64_t number) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto it = parts_.find(number);
    if (it == parts_.end()) return std::nullopt;
    return std::exchange(it->second, std::nullopt);
  }
  // Before the first one is taken.
  std::vector<std::pair<uint64_t, Part>> All() const ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::pair<uint64_t, Part>> all;
    absl::MutexLock lock(&mutex_);
    for (const auto& [number, part] : parts_) {
      if (part.has_value()) all.emplace_back(number, *part);
    }
    return all;
  }

 private:
  static constexpr uint64_t kFirst = uint64_t{1} << 61;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, std::optional<Part>> parts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
