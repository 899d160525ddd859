#include "client/recovery/waits.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "runtime/loop.h"

namespace dafs::client {

Waits::Note::Note(Waits& waits, std::string what) : waits_(waits) {
  at_ = waits_.notes_.emplace(waits_.notes_.end(), std::move(what), Loop::Now());
}

Waits::Note::~Note() {
  waits_.notes_.erase(at_);
  if (!waits_.notes_.empty() || !std::exchange(waits_.saying_, false)) return;
  LogNotice(absl::StrCat(waits_.name_, ": no longer waiting"));
}

void Waits::Look(absl::Time now) {
  std::optional<Longest> longest = this->longest(now);
  if (!longest.has_value() || longest->age < kSayAfter || now - said_ < absl::Minutes(1)) return;
  said_ = now;
  saying_ = true;
  LogWarning(absl::StrCat(
      name_, ": waiting for ", longest->what, " since ",
      absl::FormatDuration(absl::Trunc(longest->age, absl::Seconds(1))),
      longest->count > 1 ? absl::StrCat(", and ", longest->count - 1, " more") : std::string()));
}

std::optional<Waits::Longest> Waits::longest(absl::Time now) const {
  if (notes_.empty()) return std::nullopt;
  return Longest{notes_.front().first, now - notes_.front().second, notes_.size()};
}

}  // namespace dafs::client
