// When what forgotten nodes held is worth giving back to the system: after many of them, and when
// the kernel has stopped forgetting, so that the search for free pages delays no request. Not
// thread-safe.
#pragma once

#include <cstdint>

namespace dafs::fuse {

class TrimSchedule {
 public:
  // Half a kilobyte each, and more where they had names and attributes.
  static constexpr uint64_t kWorthwhile = 4096;
  // Forgotten between two calls of IsDue, while the kernel is taken to have stopped.
  static constexpr uint64_t kFew = 1024;

  // `forgotten`: how many nodes were forgotten so far. Called at regular intervals. True: the
  // caller trims now.
  bool IsDue(uint64_t forgotten) {
    const uint64_t lately = forgotten - seen_;
    seen_ = forgotten;
    if (forgotten - trimmed_ < kWorthwhile || lately >= kFew) return false;
    trimmed_ = forgotten;
    return true;
  }

 private:
  uint64_t seen_ = 0;
  uint64_t trimmed_ = 0;
};

}  // namespace dafs::fuse
