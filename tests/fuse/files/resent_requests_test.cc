// When the requests that the kernel sends again after a kill of mount.dafs count as read.
#include "fuse/files/resent_requests.h"

#include <gtest/gtest.h>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {
namespace {

fuse_in_header Request(uint32_t opcode, uint64_t unique) {
  fuse_in_header header = {};
  header.opcode = opcode;
  header.unique = unique;
  return header;
}

TEST(ResentRequestsTest, NoneIsUnreadWithoutAKill) {
  ResentRequests requests;
  EXPECT_FALSE(requests.are_unread());
}

TEST(ResentRequestsTest, TheFirstOtherRequestComesAfterAllOfThem) {
  ResentRequests requests;
  requests.Expect();
  requests.Read(Request(FUSE_OPEN, 8 | kUniqueResent));
  requests.Read(Request(FUSE_RENAME, 6 | kUniqueResent));
  EXPECT_TRUE(requests.are_unread());
  requests.Read(Request(FUSE_LOOKUP, 10));
  EXPECT_FALSE(requests.are_unread());
}

TEST(ResentRequestsTest, RequestsOfOtherQueuesSayNothing) {
  ResentRequests requests;
  requests.Expect();
  for (const uint32_t opcode :
       {FUSE_FORGET, FUSE_BATCH_FORGET, FUSE_INTERRUPT, FUSE_NOTIFY_REPLY}) {
    requests.Read(Request(opcode, 10));
    EXPECT_TRUE(requests.are_unread()) << opcode;
  }
}

}  // namespace
}  // namespace dafs::fuse
