#include "fuse/mount/process/guardian_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dafs::fuse {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    one = UniqueFd(ends[0]);
    other = UniqueFd(ends[1]);
  }
  UniqueFd one;
  UniqueFd other;
};

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end = UniqueFd(ends[0]);
    write_end = UniqueFd(ends[1]);
  }
  UniqueFd read_end;
  UniqueFd write_end;
};

// Whether `fd` is the write end of `pipe`.
bool WritesTo(int fd, const Pipe& pipe) {
  char byte = 0;
  return write(fd, "x", 1) == 1 && read(pipe.read_end.get(), &byte, 1) == 1 && byte == 'x';
}

TEST(GuardianLinkTest, PassesDescriptorsInOrder) {
  Pair pair;
  GuardianLink link(std::move(pair.one));
  const Pipe first, second, lock;
  const int devices[] = {first.write_end.get(), second.write_end.get()};
  ASSERT_TRUE(link.Keep(devices, lock.write_end.get()));
  std::optional<LinkMessage> kept = ReceiveMessage(pair.other.get());
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->kind, LinkMessage::kKeep);
  ASSERT_EQ(kept->fds.size(), 3u);

  // The guardian passes them on with the record.
  const Pipe record;
  std::vector<int> fds = {record.write_end.get()};
  for (const UniqueFd& fd : kept->fds) fds.push_back(fd.get());
  ASSERT_TRUE(SendMessage(pair.other.get(), LinkMessage::kContinue, kept->text, fds));
  absl::StatusOr<GuardianLink::Inheritance> left = link.Receive();
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(WritesTo(left->record.get(), record));
  EXPECT_TRUE(WritesTo(left->lock.get(), lock));
  ASSERT_EQ(left->devices.size(), 2u);
  EXPECT_TRUE(WritesTo(left->devices[0].get(), first));
  EXPECT_TRUE(WritesTo(left->devices[1].get(), second));
}

TEST(GuardianLinkTest, WorksWithoutTheLockOfAClientId) {
  Pair pair;
  GuardianLink link(std::move(pair.one));
  const Pipe device, record;
  const int devices[] = {device.write_end.get()};
  ASSERT_TRUE(link.Keep(devices, -1));
  std::optional<LinkMessage> kept = ReceiveMessage(pair.other.get());
  ASSERT_TRUE(kept.has_value());
  const int fds[] = {record.write_end.get(), kept->fds[0].get()};
  ASSERT_TRUE(SendMessage(pair.other.get(), LinkMessage::kContinue, kept->text, fds));
  absl::StatusOr<GuardianLink::Inheritance> left = link.Receive();
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_FALSE(left->lock.valid());
  EXPECT_EQ(left->devices.size(), 1u);
}

TEST(GuardianLinkTest, PassesBothRecordsAfterAKill) {
  Pair pair;
  GuardianLink link(std::move(pair.one));
  const Pipe record, live, lock, device;
  ASSERT_TRUE(link.Survive(record.write_end.get(), live.write_end.get(), "/program"));
  std::optional<LinkMessage> survive = ReceiveMessage(pair.other.get());
  ASSERT_TRUE(survive.has_value());
  EXPECT_EQ(survive->kind, LinkMessage::kSurvive);
  EXPECT_EQ(survive->text, "/program");
  ASSERT_EQ(survive->fds.size(), 2u);
  const int fds[] = {survive->fds[0].get(), survive->fds[1].get(), lock.write_end.get(),
                     device.write_end.get()};
  ASSERT_TRUE(SendMessage(pair.other.get(), LinkMessage::kKilled, "lock", fds));
  absl::StatusOr<GuardianLink::Inheritance> left = link.Receive();
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(WritesTo(left->record.get(), record));
  EXPECT_TRUE(WritesTo(left->live.get(), live));
  EXPECT_TRUE(WritesTo(left->lock.get(), lock));
  ASSERT_EQ(left->devices.size(), 1u);
  EXPECT_TRUE(WritesTo(left->devices[0].get(), device));
}

TEST(GuardianLinkTest, NoticesThatTheGuardianHasEnded) {
  Pair pair;
  GuardianLink link(std::move(pair.one));
  EXPECT_TRUE(link.alive());
  pair.other.Close();
  EXPECT_FALSE(link.alive());
  EXPECT_FALSE(link.Serving());
  EXPECT_FALSE(link.Receive().ok());
}

TEST(GuardianLinkTest, RefusesMessagesThatAreNone) {
  Pair pair;
  GuardianLink link(std::move(pair.one));
  const std::string long_one(10000, 'C');
  ASSERT_EQ(send(pair.other.get(), long_one.data(), long_one.size(), 0),
            static_cast<ssize_t>(long_one.size()));
  EXPECT_FALSE(link.Receive().ok());
  ASSERT_EQ(send(pair.other.get(), "C", 1, 0), 1);  // without descriptors
  EXPECT_FALSE(link.Receive().ok());
  EXPECT_FALSE(link.HandOver(-1, ""));
}

}  // namespace
}  // namespace dafs::fuse
