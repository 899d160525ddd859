#include "fuse/cache/acl_ahead.h"

#include <algorithm>
#include <utility>

#include "fuse/cache/recent_answers.h"

namespace dafs::fuse {

void AclAhead::LookUp(uint32_t thread) {
  Place& place = PlaceOf(thread);
  if (place.thread != thread || thread == 0) return;
  if (Expected(place.directory)) expected_in_ = 0;  // the prefetch was not used
  place = {};
}

uint64_t AclAhead::Ask(uint32_t thread, uint64_t directory, absl::Time now) {
  Place& place = PlaceOf(thread);
  place = {};
  place.thread = thread;
  place.question = ++questions_;
  place.directory = directory;
  place.asked = now;
  return place.question;
}

void AclAhead::Answered(uint32_t thread, uint64_t question, Acl acl, absl::Time now) {
  Place& place = PlaceOf(thread);
  if (place.question != question) return;
  place.until = now + std::min(now - place.asked, RecentAnswers::kLongest);
  place.acl = std::move(acl);
}

std::optional<AclAhead::Acl> AclAhead::Take(uint32_t thread, uint64_t directory, absl::Time now) {
  Place& place = PlaceOf(thread);
  if (place.thread != thread || place.directory != directory || thread == 0) return std::nullopt;
  std::optional<Acl> acl;
  if (place.acl.has_value() && now <= place.until) acl = std::move(place.acl);
  place = {};
  return acl;
}

}  // namespace dafs::fuse
