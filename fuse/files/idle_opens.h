// Keeps files that programs have closed open at the server for a moment (deferred close). If such a
// file is opened again in the same way, no OPEN is sent: the client only checks that the file is
// unchanged. Its CLOSE is sent when the moment is over.
//
// Only opens for reading are kept. For kFor longer they conflict with other clients that deny
// reading, or that remove a file only if it is not open (4.4.1.2, 6.5.33). No other client is
// affected.
//
// There is one table for all workers of a mount. While any worker keeps a file open, the server
// treats it as in use, and opens it even if its name was removed. Thread-safe; nothing blocks. The
// caller must close returned opens at the server.
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
  // A file that changed while idle will probably change again, so its next kNotKept closes are
  // immediate.
  static constexpr uint32_t kNotKept = 16;

  IdleOpens();
  IdleOpens(const IdleOpens&) = delete;
  IdleOpens& operator=(const IdleOpens&) = delete;

  // A program has closed `open` at `now`. Returns the open that the caller must close: `open`
  // itself if it cannot be reused, or the oldest if there is no room. Returns null if there is
  // none.
  Open Keep(Open open, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Kept {
    Open open;
    absl::Time since;  // when it was closed
  };
  // Takes out an open of `nodeid` by `who` that fits these `flags` of open(2). The caller must
  // check that the file is unchanged (IsAsOpened).
  std::optional<Kept> Take(uint64_t nodeid, const client::Identity& who, uint32_t flags,
                           absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // The file has changed. Takes out the other opens of it.
  std::vector<Open> HasChanged(uint64_t nodeid) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes out the opens that were closed kFor before `now` or earlier.
  std::vector<Open> TakeOld(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // When the next open becomes that old; nullopt if none is kept.
  std::optional<absl::Time> NextOld() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes out all opens. For use when files are about to lose names: the server would preserve a
  // removed file that we hold open.
  std::vector<Open> TakeAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same. No open is kept after that.
  std::vector<Open> Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  template <class F>
  std::vector<Open> TakeIf(F&& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Changing {
    uint64_t nodeid = 0;
    uint32_t not_kept = 0;  // closes to come that are immediate
  };

  mutable absl::Mutex mutex_;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  std::array<Changing, 16> changing_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// Whether the file of `open`, which now has the attributes `now`, is unchanged since it was opened:
// both its data and the rights to open it.
bool IsAsOpened(const OpenState& open, const wire::FileAttributes& now);

}  // namespace dafs::fuse
