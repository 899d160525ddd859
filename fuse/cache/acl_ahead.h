// The default ACL of a directory, asked for in the same piece as the look-up of a name there whose
// caller is about to make it. Where nothing is kept that a moment ago was so, its caller would wait
// for it between the two otherwise.
//
// An answer is for the thread that the look-up was for and what that makes next, within the time
// that it took to come (as in fuse/cache/recent_answers.h). Belongs to one worker's thread.
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

  // Whether the ACL of `directory` is likely to be wanted behind a look-up by a call that makes
  // something: the last one was, and had to wait or was right.
  bool Expected(uint64_t directory) const { return directory == expected_in_; }
  // What was made in `directory` had to wait for its ACL.
  void WaitedFor(uint64_t directory) { expected_in_ = directory; }

  // `thread` looks up a name: what was asked for with an earlier one is not wanted any more.
  void LookUp(uint32_t thread);
  // Before the server is asked. Returns what names the question.
  uint64_t Ask(uint32_t thread, uint64_t directory, absl::Time now);
  // Its answer; of no use if the thread has asked something else since.
  void Answered(uint32_t thread, uint64_t question, Acl acl, absl::Time now);
  // What `thread` is about to make in `directory` is under this ACL. Nothing: it is to be asked
  // for.
  std::optional<Acl> Take(uint32_t thread, uint64_t directory, absl::Time now);

 private:
  struct Place {
    uint32_t thread = 0;  // 0: free
    uint64_t question = 0;
    uint64_t directory = 0;
    absl::Time asked;
    absl::Time until;
    std::optional<Acl> acl;  // once it was answered
  };
  Place& PlaceOf(uint32_t thread) { return places_[thread % places_.size()]; }

  uint64_t expected_in_ = 0;  // 0: nowhere
  uint64_t questions_ = 0;
  std::array<Place, 16> places_;  // for as many programs at once; a later one takes the place
};

}  // namespace dafs::fuse
