// The parts that implement the kernel's protocol, each tested alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuse/kernel/attributes.h"
#include "fuse/kernel/directory_answer.h"
#include "fuse/kernel/init.h"
#include "fuse/kernel/request_reader.h"
#include "fuse/kernel/uring_protocol.h"
#include "fuse/mount/errors/mount_error.h"
#include "fuse/request/call.h"
#include "fuse/request/caller_call.h"
#include "fuse/request/identity_cache.h"
#include "fuse/request/interrupts.h"
#include "tests/fuse/fake_kernel.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

TEST(KernelAttributes, SynchronousOpensRequestStableWrites) {
  EXPECT_EQ(StabilityFromFlags(O_RDWR | O_APPEND), wire::StableHow::kUnstable);
  EXPECT_EQ(StabilityFromFlags(O_RDWR | O_DSYNC), wire::StableHow::kDataSync);
  EXPECT_EQ(StabilityFromFlags(O_WRONLY | O_SYNC), wire::StableHow::kFileSync);
}

TEST(RequestReader, ReadsStructuresNamesAndTheRest) {
  fuse_rename_in rename = {.newdir = 42};
  std::string body = Raw(rename) + Name("old") + Name("new") + "tail";
  RequestReader in(Bytes(body));
  EXPECT_EQ(in.Take<fuse_rename_in>().newdir, 42u);
  EXPECT_EQ(in.TakeName(), "old");
  EXPECT_EQ(in.TakeName(), "new");
  EXPECT_EQ(in.rest().size(), 4u);
  EXPECT_TRUE(in.ok());
}

TEST(RequestReader, EveryTruncationIsAnErrorAndReadsAsEmpty) {
  fuse_rename_in rename = {.newdir = 42};
  std::string body = Raw(rename) + Name("old") + Name("new");
  for (size_t size = 0; size < body.size(); ++size) {
    std::string part = body.substr(0, size);
    RequestReader in(Bytes(part));
    in.Take<fuse_rename_in>();
    in.TakeName();
    EXPECT_EQ(in.TakeName(), "") << size;
    EXPECT_FALSE(in.ok()) << size;
  }
}

TEST(RequestReader, RefusesInvalidNames) {
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string(1025, 'x'), std::string("/")}) {
    std::string body = Name(name);
    RequestReader in(Bytes(body));
    in.TakeName();
    EXPECT_FALSE(in.ok()) << name;
  }
  std::string longest = Name(std::string(1024, 'x'));
  RequestReader in(Bytes(longest));
  EXPECT_EQ(in.TakeName().size(), 1024u);
  EXPECT_TRUE(in.ok());
}

TEST(AnswerInit, RequestsOnlyTheFlagsThatItUses) {
  std::string body = FakeKernel::InitBody();
  InitAnswer answer = AnswerInit(Bytes(body), {.max_write = 1u << 20, .max_readahead = 1u << 20});
  EXPECT_EQ(answer.error, 0);
  EXPECT_FALSE(answer.again);
  EXPECT_EQ(answer.out.major, 7u);
  EXPECT_EQ(answer.out.max_write, 1u << 20);
  EXPECT_EQ(answer.out.max_pages, 256);
  EXPECT_EQ(answer.out.max_readahead, 128u << 10);  // at most what the kernel offers
  EXPECT_EQ(answer.out.time_gran, 1u);
  EXPECT_TRUE(answer.out.flags & FUSE_PARALLEL_DIROPS);
  EXPECT_TRUE(answer.out.flags & FUSE_MAX_PAGES);
  EXPECT_TRUE(answer.out.flags & FUSE_HANDLE_KILLPRIV_V2);
  EXPECT_TRUE(answer.out.flags & FUSE_POSIX_LOCKS);
  EXPECT_TRUE(answer.out.flags & FUSE_FLOCK_LOCKS);
  EXPECT_FALSE(answer.out.flags & FUSE_WRITEBACK_CACHE);  // write-through
  EXPECT_TRUE(answer.out.flags & FUSE_DONT_MASK);         // a default ACL replaces the umask
  EXPECT_FALSE(answer.out.flags & FUSE_POSIX_ACL);
  EXPECT_TRUE(AnswerInit(Bytes(body), {.posix_acl = true}).out.flags & FUSE_POSIX_ACL);
  EXPECT_EQ(answer.out.flags2, kInitDirectIoAllowMmap >> 32);
}

TEST(AnswerInit, LockFlagsFollowTheOptions) {
  std::string body = FakeKernel::InitBody();
  InitAnswer answer = AnswerInit(Bytes(body), {.posix_locks = false});
  EXPECT_FALSE(answer.out.flags & FUSE_POSIX_LOCKS);
  EXPECT_TRUE(answer.out.flags & FUSE_FLOCK_LOCKS);
  answer = AnswerInit(Bytes(body), {.flock_locks = false});
  EXPECT_TRUE(answer.out.flags & FUSE_POSIX_LOCKS);
  EXPECT_FALSE(answer.out.flags & FUSE_FLOCK_LOCKS);
}

TEST(AnswerInit, OlderKernelsGetOnlyFlagsThatTheyOffer) {
  fuse_init_in init = {};
  init.major = 7;
  init.minor = 31;
  init.flags = FUSE_ASYNC_READ | FUSE_MAX_PAGES;
  std::string body = Raw(init).substr(0, 16);
  InitAnswer answer = AnswerInit(Bytes(body), {});
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.out.flags, init.flags);
  EXPECT_EQ(answer.out.flags2, 0u);
}

TEST(AnswerInit, RefusesAncientKernelsAndShortRequests) {
  fuse_init_in init = {};
  init.major = 7;
  init.minor = 30;
  std::string body = Raw(init);
  EXPECT_EQ(AnswerInit(Bytes(body), {}).error, EPROTO);
  for (size_t size = 0; size < 16; ++size) {
    std::string part = FakeKernel::InitBody().substr(0, size);
    EXPECT_EQ(AnswerInit(Bytes(part), {}).error, EPROTO) << size;
  }
}

TEST(AnswerInit, ANewerMajorVersionIsAnsweredWithOurs) {
  fuse_init_in init = {};
  init.major = 8;
  std::string body = Raw(init);
  InitAnswer answer = AnswerInit(Bytes(body), {});
  EXPECT_TRUE(answer.again);
  EXPECT_EQ(answer.out.major, 7u);
}

TEST(KernelAttributes, ConvertServerAttributesForStat) {
  wire::FileAttributes a;
  a.set(wire::kFattrObjectType | wire::kFattrMode | wire::kFattrNumLinks | wire::kFattrObjectSize |
        wire::kFattrFileId | wire::kFattrSpaceUsed);
  a.object_type = wire::ObjectType::kReg;
  a.mode = 04755;
  a.num_links = 3;
  a.object_size = uint64_t{5} << 32;
  a.file_id = 0x123456789abcdef0;
  a.space_used = 1025;
  a.set(wire::kFattrTimeModify);
  a.time_modify = {-5, 999'999'999};
  a.owner = "1000";
  a.owner_group = "somebody@example.org";
  fuse_attr out = KernelAttributes(a, 7);
  EXPECT_EQ(out.mode, S_IFREG | 04755u);
  EXPECT_EQ(out.nlink, 3u);
  EXPECT_EQ(out.size, uint64_t{5} << 32);
  EXPECT_EQ(out.ino, 0x123456789abcdef0u);
  EXPECT_EQ(out.blocks, 3u);
  EXPECT_EQ(static_cast<int64_t>(out.mtime), -5);
  EXPECT_EQ(out.mtimensec, 999'999'999u);
  EXPECT_EQ(out.uid, 1000u);
  EXPECT_EQ(out.gid, 65534u);
}

// The server supports only the mandatory attributes.
TEST(KernelAttributes, MissingAttributesGetDefaultValues) {
  wire::FileAttributes a;
  a.set(wire::kFattrMandatory);
  a.object_type = wire::ObjectType::kDir;
  a.object_size = 513;
  a.file_id = 3;
  fuse_attr out = KernelAttributes(a, 7);
  EXPECT_EQ(out.mode, S_IFDIR | 0777u);
  EXPECT_EQ(out.nlink, 1u);
  EXPECT_EQ(out.blocks, 2u);
  EXPECT_EQ(out.uid, 65534u);
  a.set(wire::kFattrTimeModify);
  a.time_modify = {77, 5};
  out = KernelAttributes(a, 7);
  EXPECT_EQ(out.atime, 77u);
  EXPECT_EQ(out.ctime, 77u);
  EXPECT_EQ(out.ctimensec, 5u);
  EXPECT_EQ(KernelStatx(a, 7).atime.seconds, 77);
}

TEST(KernelAttributes, TypesAndDevicesConvertBothWays) {
  for (uint32_t type : {0100000u, 0040000u, 0120000u, 0060000u, 0020000u, 0140000u, 0010000u}) {
    EXPECT_EQ(FileTypeBits(TypeFromMode(type | 0644)), type);
  }
  EXPECT_EQ(TypeFromMode(0030000), wire::ObjectType::kInvalid);
  // The kernel's new_encode_dev: minor bits 0-7, major in 8-19, the rest of the minor above.
  EXPECT_EQ(DeviceFromKernel(0x00000803).specdata1, 8u);
  EXPECT_EQ(DeviceFromKernel(0x00000803).specdata2, 3u);
  for (uint32_t rdev : {0x803u, 0xfffffu, 0xfff00000u, 0x12345678u}) {
    EXPECT_EQ(DeviceToKernel(DeviceFromKernel(rdev)), rdev);
  }
}

// Shows DAFS-6.1.4-06 (the client's part).
TEST(AttributesToSet, DistinguishesNowFromATimeAndSetsNothingElse) {
  fuse_setattr_in in = {};
  EXPECT_EQ(AttributesToSet(in).valid, 0u);
  in.valid = FATTR_ATIME | FATTR_ATIME_NOW | FATTR_MTIME | FATTR_MODE | FATTR_UID | FATTR_SIZE;
  in.mtime = 12;
  in.mtimensec = 34;
  in.mode = S_IFREG | 0640;
  in.uid = 77;
  in.size = 99;
  wire::FileAttributes set = AttributesToSet(in);
  EXPECT_EQ(set.valid, wire::kFattrTimeAccessSet | wire::kFattrTimeModifySet | wire::kFattrMode |
                           wire::kFattrOwner | wire::kFattrObjectSize);
  EXPECT_EQ(set.time_access_set.how, wire::TimeSetHow::kSetToServerTime);
  EXPECT_EQ(set.time_modify_set.how, wire::TimeSetHow::kSetToClientTime);
  EXPECT_EQ(set.time_modify_set.client_time.seconds, 12);
  EXPECT_EQ(set.time_modify_set.client_time.nseconds, 34u);
  EXPECT_EQ(set.mode, 0640u);
  EXPECT_EQ(set.owner, "77");
  EXPECT_EQ(set.object_size, 99u);
}

// Shows DAFS-6.5.2-04 (the client's part); no mask of the kernel asks for `delete`.
TEST(AccessFromMask, HasTheBitsOfTheSpecification) {
  constexpr uint32_t kRead = 0x1, kLookup = 0x2, kModify = 0x4, kExtend = 0x8, kExecute = 0x20;
  EXPECT_EQ(AccessFromMask(R_OK, false), kRead);
  EXPECT_EQ(AccessFromMask(W_OK, false), kModify | kExtend);
  EXPECT_EQ(AccessFromMask(X_OK, false), kExecute);
  EXPECT_EQ(AccessFromMask(X_OK, true), kLookup);
  EXPECT_EQ(AccessFromMask(R_OK | W_OK | X_OK, true), kRead | kModify | kExtend | kLookup);
}

TEST(DirectoryAnswer, StaysWithinItsLimitAndAligned) {
  DirectoryAnswer answer(64);
  ASSERT_TRUE(answer.Fits("abc", false));
  answer.Add("abc", 5, S_IFDIR, 1);
  EXPECT_EQ(answer.bytes().size(), 32u);
  ASSERT_TRUE(answer.Fits("12345678", false));
  answer.Add("12345678", 6, S_IFREG, 2);
  EXPECT_EQ(answer.bytes().size(), 64u);
  EXPECT_FALSE(answer.Fits("x", false));
  fuse_dirent first = {};
  std::memcpy(&first, answer.bytes().data(), FUSE_NAME_OFFSET);
  EXPECT_EQ(first.ino, 5u);
  EXPECT_EQ(first.off, 1u);
  EXPECT_EQ(first.namelen, 3u);
  EXPECT_EQ(first.type, 4u);  // DT_DIR
}

TEST(DirectoryAnswer, CountsTheLookupsOfTheNodesItSends) {
  DirectoryAnswer answer(4096);
  fuse_entry_out entry = {};
  answer.AddPlus(entry, "none", 1, S_IFREG, 1);
  entry.nodeid = 9;
  answer.AddPlus(entry, "one", 1, S_IFREG, 2);
  EXPECT_THAT(answer.counted(), testing::ElementsAre(9u));
}

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

TEST(RequestReader, ANameBeyondTheProtocolsLimitIsTooLong) {
  std::string body = std::string(1025, 'n') + '\0';
  RequestReader in(std::as_bytes(std::span(body)));
  EXPECT_EQ(in.TakeName(), "");
  EXPECT_EQ(in.error(), ENAMETOOLONG);
  std::string empty(1, '\0');
  RequestReader nothing(std::as_bytes(std::span(empty)));
  EXPECT_EQ(nothing.TakeName(), "");
  EXPECT_EQ(nothing.error(), EINVAL);
}

TEST(KernelAttributes, StatxReturnsTheBirthTimeIfItIsKnown) {
  wire::FileAttributes attributes;
  attributes.object_type = wire::ObjectType::kChr;
  attributes.mode = 0640;
  attributes.raw_dev = {4095, 1048575};
  attributes.time_create = {-5, 7};
  StatxAttributes stat = KernelStatx(attributes, 3);
  EXPECT_EQ(stat.mask, static_cast<uint32_t>(STATX_BASIC_STATS));
  EXPECT_EQ(stat.ino, 3u);
  EXPECT_EQ(stat.rdev_major, 4095u);
  EXPECT_EQ(stat.rdev_minor, 1048575u);
  attributes.set(wire::kFattrTimeCreate);
  stat = KernelStatx(attributes, 3);
  EXPECT_EQ(stat.mask, static_cast<uint32_t>(STATX_BASIC_STATS | STATX_BTIME));
  EXPECT_EQ(stat.btime.seconds, -5);
  EXPECT_EQ(stat.btime.nanoseconds, 7u);
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

TEST(AnswerInit, EnablesIoUringOnlyIfRequestedAndOffered) {
  std::string body = FakeKernel::InitBody();
  InitOptions options;
  EXPECT_EQ(AnswerInit(Bytes(body), options).flags & kInitOverIoUring, 0u);
  options.io_uring = true;
  InitAnswer answer = AnswerInit(Bytes(body), options);
  EXPECT_NE(answer.flags & kInitOverIoUring, 0u);
  EXPECT_EQ(answer.out.flags2, static_cast<uint32_t>(answer.flags >> 32));
  fuse_init_in older = {};
  std::memcpy(&older, body.data(), sizeof(older));
  older.flags2 = 0;
  body = Raw(older);
  EXPECT_EQ(AnswerInit(Bytes(body), options).flags & kInitOverIoUring, 0u);
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

TEST(MountError, EachCauseHasItsOwnText) {
  Options o;
  o.source = *ParseSource("server:/data");
  o.port = 20149;
  Outcome unknown = HostError(o.source.host, absl::NotFoundError("x"));
  EXPECT_EQ(unknown.reason, "server: host unknown");
  EXPECT_EQ(unknown.code, ExitCode::kMountFailure);
  Outcome refused = ConnectError(o, absl::UnavailableError("connect: Connection refused"));
  EXPECT_THAT(refused.reason, testing::HasSubstr("server:20149: connection refused"));
  Outcome absent = ExportError(o, wire::StatusFromDafs(wire::DafsStatus::kNoEnt));
  EXPECT_EQ(absent.reason,
            "server:/data: no such export for this client, or no such directory in it");
  Outcome forbidden = ExportError(o, wire::StatusFromDafs(wire::DafsStatus::kAcces));
  EXPECT_EQ(
      forbidden.reason,
      "server:/data: not permitted by the server: no export there admits this machine's "
      "address, certificate or principal (clients=, certs=, principals=), or its root may not "
      "search a directory of the path");
  EXPECT_EQ(refused.code, ExitCode::kMountFailure);
  EXPECT_EQ(absent.code, ExitCode::kMountFailure);
  EXPECT_EQ(forbidden.code, ExitCode::kUsage);  // mount(8): incorrect invocation or permissions
}

TEST(ExportPath, IsSplitIntoComponents) {
  EXPECT_THAT(ExportPath(*ParseSource("s:/")), testing::IsEmpty());
  EXPECT_THAT(ExportPath(*ParseSource("s:/a//b/")), testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace dafs::fuse
