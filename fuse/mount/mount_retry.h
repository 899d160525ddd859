// Decides whether and when to retry a mount whose server did not answer: options retry=, fg and
// bg, as in nfs(5). Times are those of Loop::Now, because the wall clock of a machine may jump
// by years while it boots. Belongs to the main thread; nothing blocks.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "fuse/mount/process/exit_code.h"
#include "fuse/options/options.h"
#include "runtime/doubling_pause.h"

namespace dafs::fuse {

class MountRetry {
 public:
  // `now`: when the first attempt begins.
  MountRetry(const Options& options, absl::Time now);

  // Returns how long to wait after an attempt that ended with `outcome`. Returns nullopt if there
  // is no next attempt: the cause is permanent, or the time is over.
  std::optional<absl::Duration> NextPause(const Outcome& outcome, absl::Time now);

  // Returns the message for the user after the first attempt, while the mount is retried.
  std::string Announce(const Outcome& outcome) const;
  // Returns `outcome` of the last attempt. If the time was over, adds for how long it was retried.
  Outcome Last(Outcome outcome, int attempts) const;

 private:
  std::string Limit() const;  // "2 minutes (retry=2)"

  const absl::Duration limit_;
  const absl::Time until_;
  const bool background_;
  DoublingPause pause_;
};

}  // namespace dafs::fuse
