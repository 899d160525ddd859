// The channel to the kernel.
#include "fuse/kernel/channel.h"

#include <gtest/gtest.h>

#include "tests/fuse/fake_kernel.h"

namespace dafs::fuse {
namespace {

TEST(KernelChannel, AskForNothingSendsAnEmptyRetrieve) {
  FakeKernel kernel;
  KernelChannel channel(kernel.TakeWorkerEnd());
  EXPECT_TRUE(channel.AskForNothing(42, 7));
  FakeKernel::Answer asked = kernel.Receive();
  EXPECT_EQ(asked.unique, 0u);
  EXPECT_EQ(asked.error, FUSE_NOTIFY_RETRIEVE);
  auto retrieve = asked.As<fuse_notify_retrieve_out>();
  EXPECT_EQ(retrieve.notify_unique, 42u);
  EXPECT_EQ(retrieve.nodeid, 7u);
  EXPECT_EQ(retrieve.size, 0u);
}

}  // namespace
}  // namespace dafs::fuse
