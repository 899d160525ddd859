// What LOOKUP said of the last few nodes, for the kernel's next question about each. Where
// attributes are kept for no time at all, the kernel asks for those of what it has just looked up:
// on its way through a path, whether the caller may pass the directory, and at the end what stat(2)
// returns. These questions belong to the call that looked the name up, and LOOKUP has answered
// them.
//
// Nothing in the request says that it belongs to that call. It is taken to if the same thread asks
// within the time that LOOKUP took. Should it be a call of its own after all, fstat(2) behind
// access(2), then what another client did meanwhile was under way while the name was looked up: to
// begin later and be done before, it would have to be faster than LOOKUP was.
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

class LookupAnswers {
 public:
  // However long LOOKUP took: one that waited for a lost server says nothing of how fast others
  // are.
  static constexpr absl::Duration kLongest = absl::Milliseconds(1);

  explicit LookupAnswers(const InodeTable& inodes) : inodes_(inodes) {}
  LookupAnswers(const LookupAnswers&) = delete;
  LookupAnswers& operator=(const LookupAnswers&) = delete;

  // Before the server is asked.
  struct Question {
    uint32_t thread = 0;  // that looks the name up; 0: the kernel does not say
    absl::Time asked;
    uint64_t removals = 0;
  };
  Question Ask(uint32_t thread, absl::Time now) const { return {thread, now, inodes_.Removals()}; }

  // The server has answered `question` with `nodeid` and `attributes`.
  void Keep(const Question& question, uint64_t nodeid, const wire::FileAttributes& attributes,
            absl::Time now);
  // What `thread`, which asks now, was told of `nodeid`, once; valid until the next Keep. nullptr:
  // nothing, or it was too long ago, or something of ours has happened to the node since.
  const wire::FileAttributes* Take(uint32_t thread, uint64_t nodeid, absl::Time now);

 private:
  struct Answer {
    Question question;
    uint64_t nodeid = 0;  // 0: none, or taken
    absl::Time until;
    wire::FileAttributes attributes;
  };

  const InodeTable& inodes_;
  // For as many programs at once; a kept answer's place is the thread's.
  std::array<Answer, 16> answers_;
};

}  // namespace dafs::fuse
