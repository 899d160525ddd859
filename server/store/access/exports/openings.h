// Which exports are served yet. Each export is opened on a thread of its own, because its file
// system may not answer. An export has at most one such thread. At the start the server begins with
// the exports that answer in time. The others follow when they do. One that cannot be served then
// is tried again until it can: its clients may have requests under way and files open, and errors
// would make them lose these. Thread-safe. Only Start, OpenMore, Await and the destructor block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dafs::server {

class Openings {
 public:
  explicit Openings(size_t exports) : is_opening_(exports), errors_(exports) {}
  ~Openings();  // waits for the calls of `open` that have begun
  Openings(const Openings&) = delete;
  Openings& operator=(const Openings&) = delete;

  // Calls `open` for every export, each on a new thread. Waits until all calls have returned, at
  // most `within`. Returns the first error of those. A call that fails later is logged and repeated
  // every `retry`. `open` outlives this object.
  absl::Status Start(std::function<absl::Status(size_t export_index)> open, absl::Duration within,
                     absl::Duration retry = absl::Seconds(2)) ABSL_LOCKS_EXCLUDED(mutex_);
  // After Start, for a reload: calls `open` for each of `exports` on its thread. If an earlier call
  // for an export has not returned, waits for the result of that call. Calls are not repeated.
  // Unless all succeed within `within`, `drop` is called for each export whose `open` has
  // succeeded, or succeeds later: here, or on the thread of the export. `drop` is also called after
  // a late success of the calls that Start makes, and does nothing for an export that is to be
  // served. `open` and `drop` outlive this object. One thread at a time.
  struct Added {
    absl::Status status;               // the first error
    std::optional<size_t> unfinished;  // an export whose call has not returned within `within`
  };
  Added OpenMore(const std::vector<size_t>& exports,
                 std::function<absl::Status(size_t export_index)> open,
                 std::function<void(size_t export_index)> drop, absl::Duration within)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Repeats no call from now on. An export that is not served by then stays so: requests for it
  // must not reach it before its journals are settled.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until no call is under way or will be repeated. Returns false if that takes until
  // `deadline`.
  bool Await(absl::Time deadline) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Cheap: called for every request.
  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  bool IsOpening(size_t export_index) const {
    return export_index < is_opening_.size() &&  // otherwise a reload has added it
           is_opening_[export_index].load(std::memory_order_acquire);
  }

 private:
  struct Opening {
    std::thread thread;
    bool is_running = false;  // the thread has not ended
    bool is_awaited = false;  // OpenMore waits for the result
    bool has_result = false;
    absl::Status status;
  };

  void Run(size_t export_index) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunMore(size_t export_index, bool is_opened) ABSL_LOCKS_EXCLUDED(mutex_);
  void Begin(size_t export_index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool none() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_ == 0; }

  std::function<absl::Status(size_t)> open_;
  absl::Duration retry_;
  // They publish what `open` has done.
  std::vector<std::atomic<bool>> is_opening_;
  std::atomic<size_t> count_{0};
  mutable absl::Mutex mutex_;
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that have not ended
  bool has_started_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::Status> errors_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status(size_t)> open_more_ ABSL_GUARDED_BY(mutex_);
  std::function<void(size_t)> drop_ ABSL_GUARDED_BY(mutex_);
  // By export. Nodes keep their place.
  std::map<size_t, Opening> all_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
