// The attributes that came with the last look-ups, for the kernel's next question about what they
// found. Where attributes are kept for no time at all, the kernel asks for them behind each name:
// whether the caller may pass or open what it found, or what stat(2) is to return. LOOKUP has
// answered that, and tells it once more: to the thread that it was for, within the time that it
// took to come.
//
// Which it is, the system call says that the thread is in. What a program is told by a descriptor,
// or of a directory that it has found before, is always asked for.
//
// InodeTable::TakeFresh is for what the kernel was not told yet and may keep; this is for what it
// was told and may not. Belongs to one worker's thread. The places are used again with what strings
// they have allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "fuse/cache/inode_table.h"
#include "wire/protocol/attributes.h"

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

  // The answer to `question` had found, or made, `nodeid` with `attributes`, which the kernel keeps
  // for no time.
  void Keep(const Question& question, uint64_t nodeid, const wire::FileAttributes& attributes,
            absl::Time now);
  // What `thread` may be told of `nodeid` now, valid until the next Keep. nullptr: nothing is
  // known, or it was too long ago, or we have done something to the node since.
  const wire::FileAttributes* Find(uint32_t thread, uint64_t nodeid, absl::Time now);
  // It was told.
  void Drop(uint32_t thread, uint64_t nodeid) { PlaceOf(thread, nodeid).nodeid = 0; }
  // It was told in an open(2), whose OPEN follows: good for FindToOpen alone from now on.
  void ToldToOpen(uint32_t thread, uint64_t nodeid, absl::Time now);
  // What the node is to `thread`, which opens it, by the look-up of that open(2), valid until the
  // next Keep. nullptr: as for Find.
  const wire::FileAttributes* FindToOpen(uint32_t thread, uint64_t nodeid, absl::Time now);

 private:
  struct Answer {
    Question question;
    uint64_t nodeid = 0;  // 0: none
    absl::Duration took;
    absl::Time until;
    bool told = false;
    wire::FileAttributes attributes;
  };
  Answer& PlaceOf(uint32_t thread, uint64_t nodeid) {
    return answers_[(uint64_t{thread} * 5 + nodeid) % answers_.size()];
  }

  const InodeTable& inodes_;
  std::array<Answer, 32> answers_;  // for as many programs at once; a later one takes the place
};

}  // namespace dafs::fuse
