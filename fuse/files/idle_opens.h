// Files that programs have closed and that stay open at the server for a moment: who opens one
// again in the same way within that moment needs no OPEN, only to hear that the file is still what
// it was. Its CLOSE leaves when the moment is over.
//
// Only opens that read: for kFor longer they stand in the way of other clients that deny reading to
// others, or that remove a file only if nobody has it open (4.4.1.2, 6.5.33), and of nobody else.
//
// One table for all workers of a mount: as long as any of them keeps a file open the server takes
// it for used, and opens it though its name is gone. Thread-safe; nothing blocks. What is returned
// is the caller's to close, at the server.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/identity.h"
#include "fuse/files/open_files.h"

namespace dafs::fuse {

class IdleOpens {
 public:
  using Open = std::shared_ptr<OpenState>;
  static constexpr absl::Duration kFor = absl::Milliseconds(20);
  static constexpr size_t kMost = 64;
  // A file that had changed when it was opened again is likely to have once more: so often it is
  // closed at once.
  static constexpr uint32_t kNotKept = 16;

  IdleOpens();
  IdleOpens(const IdleOpens&) = delete;
  IdleOpens& operator=(const IdleOpens&) = delete;

  // Its program has closed it at `now`. Returns what is to be closed: it, if it cannot be used
  // again, or the oldest, for want of room; null: nothing.
  Open Keep(Open open, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Kept {
    Open open;
    absl::Time since;  // it was closed
  };
  // An open of `nodeid` by `who` with such `flags` of open(2). Whether the file is still what it
  // was (IsAsOpened) is to be found out.
  std::optional<Kept> Take(uint64_t nodeid, const client::Identity& who, uint32_t flags,
                           absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // It was not. Returns the other opens of it.
  std::vector<Open> HasChanged(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);

  // What was closed kFor before `now` or earlier.
  std::vector<Open> TakeOld(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // When the next one is old; nothing: none is kept.
  std::optional<absl::Time> NextOld() const ABSL_LOCKS_EXCLUDED(mutex_);
  // All. Files are about to lose names: the server would keep for us what is open.
  std::vector<Open> TakeAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, and none is kept any more.
  std::vector<Open> Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  template <class F>
  std::vector<Open> TakeIf(F&& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Changing {
    uint64_t nodeid = 0;
    uint32_t not_kept = 0;  // so often from now on
  };

  mutable absl::Mutex mutex_;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  std::array<Changing, 16> changing_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// Whether the file of `open` is what it was when it was opened, for its data and for whoever may
// open it: it has these attributes now.
bool IsAsOpened(const OpenState& open, const wire::FileAttributes& now);

}  // namespace dafs::fuse
