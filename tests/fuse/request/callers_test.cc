// What /proc and the user database say about the callers of requests.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuse/request/call.h"
#include "fuse/request/caller_call.h"
#include "fuse/request/identity_cache.h"
#include "fuse/request/interrupts.h"
#include "tests/fuse/fake_kernel.h"

namespace dafs::fuse {
namespace {

// A /proc with one process, 7.
class ProcTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dafs-proc-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    proc_ = name;
    std::filesystem::create_directory(proc_ + "/7");
    std::filesystem::create_symlink(std::to_string(getpid()), proc_ + "/self");
  }
  void TearDown() override { std::filesystem::remove_all(proc_); }
  void Status(const std::string& text) { std::ofstream(proc_ + "/7/status") << text; }
  CallerProc Proc() const { return CallerProc(proc_); }
  // Makes it the /proc of another PID namespace, where this process has another pid.
  void OfAnotherNamespace() {
    std::filesystem::remove(proc_ + "/self");
    std::filesystem::create_symlink(std::to_string(getpid() + 1), proc_ + "/self");
  }
  std::string proc_;
};

TEST_F(ProcTest, AThreadWithPendingSigkillOrWithoutStatusIsBeingKilled) {
  Status("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n");
  EXPECT_FALSE(IsBeingKilled(7, Proc()));
  Status("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n");
  EXPECT_TRUE(IsBeingKilled(7, Proc()));
  Status("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n");
  EXPECT_TRUE(IsBeingKilled(7, Proc()));
  EXPECT_TRUE(IsBeingKilled(8, Proc()));
  EXPECT_FALSE(IsBeingKilled(0, Proc()));
}

TEST_F(ProcTest, AThreadOfAnotherPidNamespaceIsNotInspected) {
  Status("SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\n");
  std::ofstream(proc_ + "/7/syscall")
      << SYS_readlinkat << " 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n";
  EXPECT_TRUE(IsBeingKilled(7, Proc()));
  EXPECT_TRUE(IsBeingKilled(8, Proc()));
  EXPECT_TRUE(HasSignal(7, Proc()));
  EXPECT_EQ(ChangesOwner(7, Proc()), false);
  OfAnotherNamespace();
  EXPECT_FALSE(IsBeingKilled(7, Proc()));
  EXPECT_FALSE(IsBeingKilled(8, Proc()));  // no such thread there, but the caller may live
  EXPECT_FALSE(HasSignal(7, Proc()));
  EXPECT_EQ(ChangesOwner(7, Proc()), std::nullopt);
  std::ofstream(proc_ + "/7/syscall") << "72 0x3 0x26 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7f00\n";
  EXPECT_FALSE(WaitsForOfdLock(7, Proc()));
}

TEST_F(ProcTest, GroupsNowRereadsTheGroupsOfTheCaller) {
  Status("Name:\tx\nGroups:\t1 \nx");
  IdentityCache identities("server:/data", Proc());
  absl::Time now = absl::UnixEpoch();
  auto before = identities.Get(5, 6, 7, Groups::kNow, now);
  EXPECT_EQ(identities.Get(5, 6, 7, Groups::kNow, now), before);
  Status("Name:\tx\nGroups:\t2 \nx");
  EXPECT_EQ(identities.Get(5, 6, 7, Groups::kRecent, now), before);
  EXPECT_THAT(identities.Get(5, 6, 7, Groups::kNow, now)->groups, testing::ElementsAre(2u));
  EXPECT_THAT(identities.Get(5, 6, 7, Groups::kRecent, now)->groups, testing::ElementsAre(2u));
}

TEST_F(ProcTest, InterruptEndsACallOnlyWhenItsCallerIsKilled) {
  FakeKernel kernel;
  KernelChannel channel(kernel.TakeWorkerEnd());
  OutstandingCalls calls;
  auto loop = *Loop::Create();
  Interrupts interrupts(
      *loop, calls, [](Call&) {}, Proc());
  fuse_in_header header = {};
  header.unique = 10;
  header.pid = 7;
  Call call(channel, calls, header, {}, client::BufferLease());
  Status("SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n");
  interrupts.Interrupt(10);
  interrupts.Interrupt(11);  // no such call
  EXPECT_FALSE(call.answered());
  // The kernel does not report a second signal, so the call is checked again.
  Status("SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n");
  while (!call.answered()) loop->RunOnce(absl::Seconds(1));
  FakeKernel::Answer answer = kernel.Receive();
  EXPECT_EQ(answer.unique, 10u);
  EXPECT_EQ(answer.error, EINTR);
  EXPECT_FALSE(call.ReplyOk());  // a later reply of the server is dropped
  EXPECT_EQ(calls.Find(10), nullptr);
}

TEST_F(ProcTest, HasSignalIgnoresBlockedSignals) {
  Status("SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nSigBlk:\t0000000000000000\n");
  EXPECT_TRUE(HasSignal(7, Proc()));
  Status("SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nSigBlk:\t0000000000004000\n");
  EXPECT_FALSE(HasSignal(7, Proc()));
  EXPECT_FALSE(HasSignal(8, Proc()));  // gone: the kernel may call in the name of such a thread
  EXPECT_FALSE(HasSignal(0, Proc()));
}

TEST_F(ProcTest, AnUnreportedSignalEndsALockWaitOverIoUring) {
  FakeKernel kernel;
  KernelChannel channel(kernel.TakeWorkerEnd());
  OutstandingCalls calls;
  auto loop = *Loop::Create();
  Interrupts interrupts(
      *loop, calls, [](Call&) {}, Proc());
  Status("SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nSigBlk:\t0000000000000000\n");
  fuse_in_header header = {};
  header.pid = 7;
  header.unique = 10;
  header.opcode = FUSE_SETLKW;
  Call waits(channel, calls, header, {}, client::BufferLease());
  bool ended = false;
  waits.on_interrupt = [&] {
    ended = true;
    waits.ReplyErrno(EINTR);
  };
  header.unique = 12;
  header.opcode = FUSE_WRITE;
  Call writes(channel, calls, header, {}, client::BufferLease());
  interrupts.WatchRing();
  while (!ended) loop->RunOnce(absl::Seconds(1));
  EXPECT_EQ(kernel.Receive().unique, 10u);
  EXPECT_FALSE(writes.answered() || writes.interrupted);
}

TEST_F(ProcTest, RecentGroupsAreReadOnceASecond) {
  IdentityCache identities("server:/data", Proc());
  absl::Time now = absl::UnixEpoch();
  Status("Uid:\t5\nGroups:\t30 4 20 \nNgid:\t0\n");
  auto who = identities.Get(5, 6, 7, Groups::kRecent, now);
  EXPECT_EQ(who->uid, 5u);
  EXPECT_EQ(who->gid, 6u);
  EXPECT_THAT(who->groups, testing::ElementsAre(4u, 20u, 30u));
  Status("Uid:\t5\nGroups:\t1\n");
  EXPECT_EQ(identities.Get(5, 6, 7, Groups::kRecent, now + absl::Milliseconds(999)), who);
  EXPECT_THAT(identities.Get(5, 6, 7, Groups::kRecent, now + absl::Seconds(1))->groups,
              testing::ElementsAre(1u));
  // Another user with the same pid has a separate entry.
  EXPECT_EQ(identities.Get(9, 6, 7, Groups::kRecent, now + absl::Seconds(1))->uid, 9u);
}

TEST_F(ProcTest, ExitedCallersAndRootHaveNoGroups) {
  IdentityCache identities("server:/data", Proc(),
                           [](uint32_t) { return std::vector<uint32_t>{1}; });
  EXPECT_TRUE(identities.Get(5, 6, 8, Groups::kRecent, absl::UnixEpoch())->groups.empty());
  EXPECT_TRUE(identities.Get(0, 0, 0, Groups::kRecent, absl::UnixEpoch())->groups.empty());
}

TEST_F(ProcTest, CallersInAnotherPidNamespaceHaveTheGroupsOfTheUserDatabase) {
  std::vector<uint32_t> asked;
  auto database = [&](uint32_t uid) {
    asked.push_back(uid);
    return std::vector<uint32_t>{uid + 100, uid + 200};
  };
  IdentityCache identities("server:/data", Proc(), database);
  const absl::Time now = absl::UnixEpoch();
  auto who = identities.Get(5, 6, 0, Groups::kNow, now);
  EXPECT_EQ(who->uid, 5u);
  EXPECT_EQ(who->gid, 6u);
  EXPECT_THAT(who->groups, testing::ElementsAre(105u, 205u));
  EXPECT_THAT(identities.Get(4, 6, 0, Groups::kNow, now)->groups, testing::ElementsAre(104u, 204u));
  EXPECT_EQ(identities.Get(5, 6, 0, Groups::kNow, now + absl::Seconds(59)), who);
  EXPECT_THAT(asked, testing::ElementsAre(5u, 4u));
  identities.Get(5, 6, 0, Groups::kRecent, now + absl::Minutes(1));
  EXPECT_THAT(asked, testing::ElementsAre(5u, 4u, 5u));
}

// Otherwise a caller would get the groups of an unrelated process that has its number there.
TEST_F(ProcTest, ProcOfAnotherPidNamespaceIsNotRead) {
  Status("Groups:\t30\n");
  OfAnotherNamespace();
  IdentityCache identities("server:/data", Proc(),
                           [](uint32_t) { return std::vector<uint32_t>{1}; });
  EXPECT_THAT(identities.Get(5, 6, 7, Groups::kNow, absl::UnixEpoch())->groups,
              testing::ElementsAre(1u));
}

TEST(UserDatabase, ReturnsGroupsOfKnownUsersOnly) {
  EXPECT_THAT(GroupsInDatabase(0), testing::Contains(0u));
  EXPECT_TRUE(GroupsInDatabase(4294967000u).empty());
}

}  // namespace
}  // namespace dafs::fuse
