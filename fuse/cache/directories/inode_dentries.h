// The names under which the kernel may find one node. A program that opens the node may have used
// any of them, and FUSE's OPEN does not say which. If the file's CHANGE differs since the name was
// sent to the kernel, the name may belong to another file now.
//
// Only the latest name is kept; it is looked up again in that case. For older names only the time
// is kept until which the kernel may use one. If CHANGE differs before that time, the kernel must
// walk its path again.
//
// Not thread-safe: InodeTable keeps it under its mutex.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "fuse/cache/directories/dentry_name.h"

namespace dafs::fuse {

class InodeDentries {
 public:
  // Where the node was last found, even if the kernel no longer uses that name. Empty: nowhere.
  const DentryName& latest() const { return latest_; }
  void FoundAt(const DentryName& dentry, absl::Time now);
  // For a directory: the kernel has it under its latest name only.
  void DropOthers() { others_.reset(); }

  // The kernel may use `dentry` until `until` as a name of the node, which has CHANGE `change`.
  // Ignored if another thread has found the node elsewhere since.
  void Sent(const DentryName& dentry, uint64_t change, absl::Time until);
  // This mount has renamed `from`, and the kernel moves the name with its time.
  void Moved(const DentryName& from, const DentryName& to);
  // This mount has removed the name, and so does the kernel.
  void Removed(const DentryName& dentry);

  // The latest name, if the kernel may use it at `now` and it was not seen at this CHANGE.
  // Otherwise null.
  const DentryName* NotSeenAt(uint64_t change, absl::Time now) const;
  // A lookup has found that `dentry` still leads to the node, which has this CHANGE.
  void Confirm(const DentryName& dentry, uint64_t change);
  // A lookup has found that it does not.
  void Lose(const DentryName& dentry);
  // Whether the kernel may use a name at `now` that leads elsewhere, if the node has this CHANGE.
  bool AnyLost(uint64_t change, absl::Time now) const;

  // For the program that continues the mount (docs/restart.md): until when the kernel may use which
  // name. Times are those of Loop::Now, in nanoseconds.
  struct Saved {
    int64_t until_ns = 0;  // the latest name
    uint64_t change = 0;
    bool seen = false;
    bool lost = false;
    int64_t others_until_ns = 0;  // 0: there are no others
  };
  Saved Save() const;
  void Restore(const DentryName& latest, const Saved& saved);

 private:
  // Most nodes do not need this.
  struct Others {
    DentryName only;  // no name: there may be several
    absl::Time until;
    uint64_t change = 0;
    bool mixed = false;  // not all were seen at `change`
  };

  DentryName latest_;
  absl::Time until_ = absl::InfinitePast();  // the kernel may use latest_
  uint64_t change_ = 0;                      // when latest_ was seen
  bool seen_ = false;                        // at change_
  bool lost_ = false;                        // latest_ leads elsewhere
  std::unique_ptr<Others> others_;
};

}  // namespace dafs::fuse
