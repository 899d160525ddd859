#include "client/recovery/calls/wait_tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

WaitTracker::Wait::Wait(WaitTracker& tracker, std::string what) : tracker_(tracker) {
  at_ = tracker_.begun_.emplace(tracker_.begun_.end(), std::move(what), Loop::Now());
}

WaitTracker::Wait::~Wait() {
  tracker_.begun_.erase(at_);
  if (!tracker_.begun_.empty() || !std::exchange(tracker_.has_logged_, false)) return;
  LogNotice(absl::StrCat(tracker_.name_, ": no longer waiting"));
}

void WaitTracker::LogLong(absl::Time now) {
  std::optional<Longest> longest = this->longest(now);
  if (!longest.has_value() || longest->age < kLogAfter || now - logged_at_ < absl::Minutes(1))
    return;
  logged_at_ = now;
  has_logged_ = true;
  LogWarning(absl::StrCat(
      name_, ": waiting for ", longest->what, " since ",
      absl::FormatDuration(absl::Trunc(longest->age, absl::Seconds(1))),
      longest->count > 1 ? absl::StrCat(", and ", longest->count - 1, " more") : std::string()));
}

std::optional<WaitTracker::Longest> WaitTracker::longest(absl::Time now) const {
  if (begun_.empty()) return std::nullopt;
  return Longest{begun_.front().first, now - begun_.front().second, begun_.size()};
}

}  // namespace dafs::client
