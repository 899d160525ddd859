// Caches the attributes that came with the last lookups, for the kernel's next request about the
// nodes found. Without cache times, the kernel requests attributes after each lookup: to check
// whether the caller may pass or open the node, or for stat(2) to return. The reply to LOOKUP had
// the same attributes. They are used a second time, only for the thread that made the lookup. They
// expire after the round trip time of the lookup.
//
// The system call that the thread is in says which request this is. Attributes for a descriptor, or
// for a directory that the program has found before, always need a request to the server.
//
// InodeTable::TakeFresh has attributes that were not sent to the kernel yet, and that it may cache.
// This class has attributes that were sent, and that it may not cache. Belongs to one worker's
// thread. Entries are reused, with the memory of their strings.
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
  // The cap for replies that took long, such as one that waited for an unreachable server.
  static constexpr absl::Duration kLongest = absl::Milliseconds(1);

  explicit RecentAnswers(const InodeTable& inodes) : inodes_(inodes) {}
  RecentAnswers(const RecentAnswers&) = delete;
  RecentAnswers& operator=(const RecentAnswers&) = delete;

  // Describes a request before it is sent.
  struct Question {
    uint32_t thread = 0;  // of the call; 0: the kernel does not name it
    absl::Time asked;
    uint64_t removals = 0;
  };
  Question Ask(uint32_t thread, absl::Time now) const { return {thread, now, inodes_.Removals()}; }

  // The reply to `question` has found or created `nodeid` with `attributes`, which the kernel may
  // not cache.
  void Keep(const Question& question, uint64_t nodeid, const wire::FileAttributes& attributes,
            absl::Time now);
  // The attributes of `nodeid` that may be sent to `thread` now, valid until the next Keep.
  // nullptr: none are cached, they have expired, or this mount has changed the node since.
  const wire::FileAttributes* Find(uint32_t thread, uint64_t nodeid, absl::Time now);
  // The attributes were sent, and are not to be used again.
  void Drop(uint32_t thread, uint64_t nodeid) { PlaceOf(thread, nodeid).nodeid = 0; }
  // They were sent during an open(2), whose OPEN follows. From now on only FindToOpen returns them.
  void ToldToOpen(uint32_t thread, uint64_t nodeid, absl::Time now);
  // The attributes of the node that `thread` opens, from the lookup of that open(2), valid until
  // the next Keep. nullptr: as for Find.
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
  std::array<Answer, 32> answers_;  // by thread and node; a later one overwrites
};

}  // namespace dafs::fuse
