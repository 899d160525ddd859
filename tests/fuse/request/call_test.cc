// A request that is being answered.
#include "fuse/request/call.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/fuse/fake_kernel.h"

namespace dafs::fuse {
namespace {

TEST(Call, IsAnsweredExactlyOnce) {
  FakeKernel kernel;
  KernelChannel channel(kernel.TakeWorkerEnd());
  OutstandingCalls calls;
  fuse_in_header header = {};
  header.unique = 3;
  {
    Call call(channel, calls, header, {}, client::BufferLease());
    EXPECT_EQ(calls.size(), 1u);
  }
  EXPECT_EQ(calls.size(), 0u);
  EXPECT_EQ(kernel.Receive().error, EIO);
  Call call(channel, calls, header, {}, client::BufferLease());
  EXPECT_TRUE(call.ReplyErrno(ENOENT));
  EXPECT_FALSE(call.ReplyErrno(EIO));
  EXPECT_EQ(kernel.Receive().error, ENOENT);
}

}  // namespace
}  // namespace dafs::fuse
