// The attributes that came with the last answers, for the kernel's next question about them. Where
// attributes are kept for no time at all, the kernel asks for them at each step of a call: whether
// the caller may pass a directory, and look something up in it; whether it may change the directory
// then; what stat(2) returns. LOOKUP has answered all of these that come behind it.
//
// An answer is used again for the thread that it was for, within the time that it took to come:
// - where only the kernel looks at it, to let the caller pass; the server looks at that once more;
// - for stat(2) of the name that was just looked up.
// Which it is, the system call says that the thread is in. What a program is told by a descriptor,
// or of a directory that it has found before, is always asked for; so is whatever might keep the
// caller out though it is older than his call.
//
// InodeTable::TakeFresh is for what the kernel was not told yet and may keep; this is for what it
// was told and may not. Belongs to one worker's thread. The places are used again with what strings
// they have allocated.
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
  // However long an answer took, as one does that waited for a lost server.
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

  struct Answer {
    Question question;
    uint64_t nodeid = 0;  // 0: none
    bool found = false;   // by its name, and the kernel has not asked since
    absl::Time until;
    wire::FileAttributes attributes;
  };
  // The answer to `question` had `attributes` of `nodeid`, which the kernel keeps for no time.
  // `found`: it was looked up, or made, by its name.
  void Keep(const Question& question, uint64_t nodeid, const wire::FileAttributes& attributes,
            bool found, absl::Time now);
  // What `thread` may be told of `nodeid` now, valid until the next Keep. nullptr: nothing is
  // known, or it was too long ago, or we have done something to the node since.
  Answer* Find(uint32_t thread, uint64_t nodeid, absl::Time now);

 private:
  Answer& PlaceOf(uint32_t thread, uint64_t nodeid) {
    return answers_[(thread * 5 + nodeid) % answers_.size()];
  }

  const InodeTable& inodes_;
  std::array<Answer, 32> answers_;  // for as many programs at once; a later one takes the place
};

}  // namespace dafs::fuse
