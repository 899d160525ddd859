// Whether and when a mount is tried again whose server did not answer: options retry=, fg and bg,
// as in nfs(5). Times are those of dat::Loop::Now: while a machine boots, its clock may be set by
// years. Belongs to the main thread; nothing blocks.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "fuse/mount/exit_code.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

class MountRetry {
 public:
  // `now`: when the first attempt begins.
  MountRetry(const Options& options, absl::Time now);

  // After an attempt that ended as `outcome`: how long to wait before the next one; nullopt: there
  // is none, since the cause does not pass or the time is over.
  std::optional<absl::Duration> NextPause(const Outcome& outcome, absl::Time now);

  // After the first attempt: what the user reads meanwhile.
  std::string Announce(const Outcome& outcome) const;
  // Of the last attempt: `outcome`, with how long it was tried if that was the reason to stop.
  Outcome Last(Outcome outcome, int attempts) const;

 private:
  std::string Limit() const;  // "2 minutes (retry=2)"

  const absl::Duration limit_;
  const absl::Time until_;
  const bool background_;
  absl::Duration pause_;
};

}  // namespace dafs::fuse
