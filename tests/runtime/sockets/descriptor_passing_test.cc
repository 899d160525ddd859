#include "runtime/sockets/descriptor_passing.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace dafs {
namespace {

class DescriptorPassingTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    near_ = UniqueFd(ends[0]);
    far_ = UniqueFd(ends[1]);
  }

  UniqueFd near_, far_;
};

TEST_F(DescriptorPassingTest, DescriptorsArriveWithTheirMessage) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  UniqueFd reading(pipe_ends[0]), writing(pipe_ends[1]);
  const std::string message = "two";
  const int both[] = {reading.get(), writing.get()};
  ASSERT_TRUE(SendDescriptors(near_.get(), message, both));
  ASSERT_TRUE(SendDescriptors(near_.get(), "x", {}));
  char into[8];
  std::vector<UniqueFd> fds;
  ASSERT_EQ(ReceiveDescriptors(far_.get(), into, &fds), 3u);
  EXPECT_EQ(std::string(into, 3), message);
  ASSERT_EQ(fds.size(), 2u);
  EXPECT_EQ(fcntl(fds[0].get(), F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(write(fds[1].get(), "!", 1), 1);
  char got = 0;
  EXPECT_EQ(read(reading.get(), &got, 1), 1);
  EXPECT_EQ(got, '!');
  // The next one has none. "x" is an array with its NUL.
  EXPECT_EQ(ReceiveDescriptors(far_.get(), into, &fds), 2u);
  EXPECT_EQ(fds.size(), 2u);
}

TEST_F(DescriptorPassingTest, ACutOffMessageAndTheEndOfThePeerAreNone) {
  const std::string long_one(100, 'x');
  const std::vector<int> many(kMostPassedDescriptors + 1, near_.get());
  EXPECT_FALSE(SendDescriptors(near_.get(), long_one, many));
  ASSERT_TRUE(SendDescriptors(near_.get(), long_one, {}));
  char into[8];
  std::vector<UniqueFd> fds;
  EXPECT_EQ(ReceiveDescriptors(far_.get(), into, &fds), std::nullopt);
  near_.Close();
  EXPECT_EQ(ReceiveDescriptors(far_.get(), into, &fds), std::nullopt);
  EXPECT_FALSE(SendDescriptors(far_.get(), long_one, {}));
}

}  // namespace
}  // namespace dafs
