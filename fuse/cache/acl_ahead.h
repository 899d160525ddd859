// Prefetches the default ACL of a directory while a name in it is looked up, if the caller is about
// to create that name. Both requests leave together. Without cache times, the create would
// otherwise wait for one more round trip.
//
// A reply is valid for the thread that made the lookup, and for what that thread creates next. It
// expires after the round trip time of its request, capped as in fuse/cache/recent_answers.h.
// Belongs to one worker's thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dafs::fuse {

class AclAhead {
 public:
  using Acl = absl::StatusOr<std::string>;  // as Files::GetXattr returns it

  // Whether to prefetch the ACL of `directory`: the last create in it waited for the ACL, or used a
  // prefetched one.
  bool Expected(uint64_t directory) const { return directory == expected_in_; }
  // A create in `directory` had to wait for its ACL.
  void WaitedFor(uint64_t directory) { expected_in_ = directory; }

  // `thread` looks up a name. Discards what was prefetched for its earlier lookup.
  void LookUp(uint32_t thread);
  // Call before the request is sent. Returns the number of the prefetch, for Answered.
  uint64_t Ask(uint32_t thread, uint64_t directory, absl::Time now);
  // Stores the reply. Ignores it if the thread has started another prefetch since.
  void Answered(uint32_t thread, uint64_t question, Acl acl, absl::Time now);
  // Takes out the ACL for what `thread` is about to create in `directory`. nullopt: the caller must
  // request it from the server.
  std::optional<Acl> Take(uint32_t thread, uint64_t directory, absl::Time now);

 private:
  struct Place {
    uint32_t thread = 0;  // 0: free
    uint64_t question = 0;
    uint64_t directory = 0;
    absl::Time asked;
    absl::Time until;
    std::optional<Acl> acl;  // set by Answered
  };
  Place& PlaceOf(uint32_t thread) { return places_[thread % places_.size()]; }

  uint64_t expected_in_ = 0;  // 0: nowhere
  uint64_t questions_ = 0;
  std::array<Place, 16> places_;  // by thread; a later thread overwrites
};

}  // namespace dafs::fuse
