#include "fuse/mount/mount_retry.h"

#include <algorithm>
#include <utility>

namespace dafs::fuse {
MountRetry::MountRetry(const Options& options, absl::Time now)
    : limit_(RetryFor(options)),
      until_(now + limit_),
      background_(options.background && !options.foreground),
      pause_(absl::Seconds(1), absl::Seconds(10)) {}

std::optional<absl::Duration> MountRetry::NextPause(const Outcome& outcome, absl::Time now) {
  if (!outcome.may_pass || now >= until_) return std::nullopt;
  const absl::Duration pause =
      std::min(pause_.next(), until_ - now);  // the last attempt is at `until_`
  pause_.Grow();
  return pause;
}

std::string MountRetry::Limit() const {
  const std::string minutes = std::to_string(absl::ToInt64Minutes(limit_));
  return minutes + (minutes == "1" ? " minute" : " minutes") + " (retry=" + minutes + ")";
}

std::string MountRetry::Announce(const Outcome& outcome) const {
  return outcome.reason + (background_ ? "; retrying in the background for " : "; retrying for ") +
         Limit();
}

Outcome MountRetry::Last(Outcome outcome, int attempts) const {
  if (outcome.may_pass && attempts > 1) outcome.reason += "; gave up after " + Limit();
  return outcome;
}

}  // namespace dafs::fuse
