// The attributes that came with the last answers, for the kernel's next question about them. Where
// attributes are kept for no time at all, the kernel asks for them at each step of a call: whether
// the caller may pass a directory, and look something up in it; whether it may change the directory
// then; what stat(2) returns. LOOKUP has answered all of these that come behind it.
//
// Nothing in a request says that it belongs to the same call. It is taken to if the same thread
// asks within the time that the answer took to come. Should it be a call of its own after all,
// fstat(2) behind access(2), then what another client did meanwhile was under way when the answer
// was given: to begin later and be known of before, it would have to be faster than that answer
// was.
//
// Belongs to one worker's thread. Nothing is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "fuse/inode_table.h"
#include "wire/attributes.h"

namespace dafs::fuse {

class RecentAnswers {
 public:
  // However long an answer took: one that waited for a lost server says nothing of how fast others
  // are.
  static constexpr absl::Duration kLongest = absl::Milliseconds(1);

  explicit RecentAnswers(const InodeTable& inodes) : inodes_(inodes) {}
  RecentAnswers(const RecentAnswers&) = delete;
  RecentAnswers& operator=(const RecentAnswers&) = delete;

  // Before the server is asked.
  struct Question {
    uint32_t thread = 0;  // whose call it is; 0: the kernel does not say
    absl::Time asked;
    uint64_t removals = 0;
  };
  Question Ask(uint32_t thread, absl::Time now) const { return {thread, now, inodes_.Removals()}; }

  // The answer to `question` had `attributes` of `nodeid`, which the kernel keeps for no time.
  void Keep(const Question& question, uint64_t nodeid, const wire::FileAttributes& attributes,
            absl::Time now);
  // What `thread` may be told of `nodeid` now, of a file once; valid until the next Keep. nullptr:
  // nothing is known, or it was too long ago, or we have done something to the node since.
  const wire::FileAttributes* Find(uint32_t thread, uint64_t nodeid, absl::Time now);

 private:
  struct Answer {
    Question question;
    uint64_t nodeid = 0;  // 0: none, or taken
    absl::Time until;
    wire::FileAttributes attributes;
  };
  Answer& PlaceOf(uint32_t thread, uint64_t nodeid) {
    return answers_[(thread * 5 + nodeid) % answers_.size()];
  }

  const InodeTable& inodes_;
  std::array<Answer, 32> answers_;  // for as many programs at once; a later one takes the place
};

}  // namespace dafs::fuse
