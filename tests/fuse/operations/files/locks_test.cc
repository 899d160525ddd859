// The kernel's lock requests: which owner has a lock, what ends it, and how a wait ends.
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fuse/files/lock_owners.h"
#include "fuse/request/caller_call.h"
#include "runtime/files/lock_ioctl.h"
#include "tests/fuse/worker_fixture.h"
#include "wire/protocol/process_owner.h"

namespace dafs::fuse {
namespace {

constexpr uint64_t kMost = 0x7fffffffffffffff;  // the kernel's OFFSET_MAX

class LocksTest : public WorkerTest {
 protected:
  static std::string Lk(const Created& file, uint64_t owner, uint32_t type, uint64_t start = 0,
                        uint64_t end = kMost, uint32_t flags = 0) {
    fuse_lk_in in = {};
    in.fh = file.open.fh;
    in.owner = owner;
    in.lk.start = start;
    in.lk.end = end;
    in.lk.type = type;
    in.lk.pid = static_cast<uint32_t>(getpid());
    in.lk_flags = flags;
    return Raw(in);
  }
  int Lock(const Created& file, uint64_t owner, uint32_t type, uint64_t start = 0,
           uint64_t end = kMost) {
    return kernel_.Call(FUSE_SETLK, file.entry.nodeid, Lk(file, owner, type, start, end)).error;
  }
  int Flock(const Created& file, uint64_t owner, uint32_t type) {
    return kernel_
        .Call(FUSE_SETLK, file.entry.nodeid, Lk(file, owner, type, 0, kMost, FUSE_LK_FLOCK))
        .error;
  }
  int Ioctl(const Created& file, uint64_t command, const std::string& argument) {
    fuse_ioctl_in in = {};
    in.fh = file.open.fh;
    in.cmd = static_cast<uint32_t>(command);
    in.in_size = static_cast<uint32_t>(argument.size());
    return kernel_.Call(FUSE_IOCTL, file.entry.nodeid, Raw(in) + argument).error;
  }
  int IoctlLock(const Created& file, uint32_t type, uint32_t flags) {
    return Ioctl(file, kLockIoctl, Raw(LockIoctl{type, flags}));
  }
  uint64_t BeginWait(const Created& file, uint64_t owner, uint32_t type, uint32_t flags = 0) {
    return kernel_.Send(FUSE_SETLKW, file.entry.nodeid, Lk(file, owner, type, 0, kMost, flags));
  }
  fuse_file_lock Test(const Created& file, uint64_t owner, uint32_t type) {
    return kernel_.Call(FUSE_GETLK, file.entry.nodeid, Lk(file, owner, type)).As<fuse_lk_out>().lk;
  }
  static std::string FlushBody(const Created& file, uint64_t owner) {
    fuse_flush_in in = {};
    in.fh = file.open.fh;
    in.lock_owner = owner;
    return Raw(in);
  }
  void Flush(const Created& file, uint64_t owner) {
    EXPECT_EQ(kernel_.Call(FUSE_FLUSH, file.entry.nodeid, FlushBody(file, owner)).error, 0);
  }
  Created Again(const Created& file, uint32_t flags = O_RDWR) {
    return {file.entry, Open(file.entry.nodeid, flags)};
  }
  void Interrupt(uint64_t unique) {
    kernel_.Send(FUSE_INTERRUPT, 0, Raw(fuse_interrupt_in{.unique = unique}));
  }
};

TEST_F(LocksTest, OwnersExcludeEachOther) {
  Created file = Create("f");
  EXPECT_EQ(Lock(file, 1, F_WRLCK, 10, 19), 0);
  EXPECT_EQ(Lock(file, 2, F_RDLCK, 19, 19), EAGAIN);
  EXPECT_EQ(Lock(file, 2, F_RDLCK, 20, kMost), 0);
  fuse_file_lock found = Test(file, 2, F_WRLCK);
  EXPECT_EQ(found.type, static_cast<uint32_t>(F_WRLCK));
  EXPECT_EQ(found.start, 10u);
  EXPECT_EQ(found.end, 19u);
  EXPECT_EQ(found.pid, static_cast<uint32_t>(getpid()));
  found = Test(file, 1, F_WRLCK);
  EXPECT_EQ(found.type, static_cast<uint32_t>(F_RDLCK));
  EXPECT_EQ(found.end, kMost);
  EXPECT_EQ(Test(file, 1, F_RDLCK).type, static_cast<uint32_t>(F_UNLCK));
  EXPECT_EQ(Lock(file, 1, F_UNLCK), 0);
  EXPECT_EQ(Lock(file, 2, F_RDLCK), 0);
  EXPECT_EQ(server_->open_count(), 3u);  // one of the handle, and one of each owner
  EXPECT_EQ(Lock(file, 99, F_UNLCK), 0);
  EXPECT_EQ(server_->open_count(), 3u);  // an unlock does not open the file
}

TEST_F(LocksTest, AnIoctlTakesAPersistentFlockLock) {
  Created file = Create("f"), again = Again(file);
  EXPECT_EQ(IoctlLock(file, F_WRLCK, kLockIoctlPersist), 0);
  EXPECT_EQ(IoctlLock(again, F_WRLCK, kLockIoctlPersist), EAGAIN);
  EXPECT_EQ(Flock(again, 2, F_RDLCK), EAGAIN);
  EXPECT_EQ(Lock(again, 2, F_RDLCK), 0);                           // record locks are another space
  EXPECT_EQ(IoctlLock(again, F_WRLCK, kLockIoctlRepair), EINVAL);  // nothing is broken
  EXPECT_EQ(IoctlLock(file, F_UNLCK, 0), 0);
  EXPECT_EQ(Flock(again, 2, F_RDLCK), 0);
}

TEST_F(LocksTest, AnyOtherIoctlIsRefused) {
  Created file = Create("f");
  EXPECT_EQ(Ioctl(file, kLockIoctl + 1, Raw(LockIoctl{F_WRLCK, 0})), ENOTTY);
  EXPECT_EQ(Ioctl(file, kLockIoctl, "short"), EINVAL);
  EXPECT_EQ(Ioctl(file, kLockIoctl, ""), EINVAL);
  EXPECT_EQ(IoctlLock(file, 17, 0), EINVAL);
  EXPECT_EQ(IoctlLock(file, F_WRLCK, kLockIoctlFlags + 1), EINVAL);
  file.open.fh = 12345;
  EXPECT_EQ(IoctlLock(file, F_WRLCK, 0), ENOTTY);  // as a directory
  EXPECT_EQ(kernel_.Call(FUSE_IOCTL, file.entry.nodeid, "x").error, EINVAL);
}

TEST_F(LocksTest, ClosingAnyDescriptorEndsTheOwnersLocksOnThatFileOnly) {
  Created file = Create("f"), other = Create("g");
  Created reading = Again(file, O_RDONLY);
  EXPECT_FALSE(reading.open.open_flags & FOPEN_NOFLUSH);
  EXPECT_EQ(Lock(file, 1, F_WRLCK), 0);
  EXPECT_EQ(Lock(other, 1, F_WRLCK), 0);
  EXPECT_EQ(Lock(file, 2, F_RDLCK), EAGAIN);
  Flush(reading, 3);  // a close by another owner
  EXPECT_EQ(Lock(file, 2, F_RDLCK), EAGAIN);
  Flush(reading, 1);
  EXPECT_EQ(Lock(file, 2, F_RDLCK), 0);
  EXPECT_EQ(Lock(other, 2, F_RDLCK), EAGAIN);
  // The kernel reuses the number for another owner.
  EXPECT_EQ(Lock(file, 1, F_WRLCK), EAGAIN);
  EXPECT_EQ(state_->lock_owners.size(), 4u);
}

TEST_F(LocksTest, TheCloseOfTheLastHandleEndsRemainingLocks) {
  Created file = Create("f");
  Created again = Again(file);
  EXPECT_EQ(Lock(again, 1, F_WRLCK), 0);  // an OFD lock: no FLUSH names its owner
  EXPECT_EQ(Lock(file, 2, F_RDLCK), EAGAIN);
  Flush(again, 77);
  EXPECT_EQ(Lock(file, 2, F_RDLCK), EAGAIN);
  Release(again);
  // The worker replies to RELEASE before the server has ended the lock.
  EXPECT_EQ(kernel_.Call(FUSE_SETLKW, file.entry.nodeid, Lk(file, 2, F_WRLCK)).error, 0);
  EXPECT_EQ(state_->lock_owners.size(), 1u);
  EXPECT_EQ(client_->locks().count(), 1u);
  Flush(file, 2);
  EXPECT_EQ(client_->locks().count(), 0u);
  EXPECT_EQ(server_->open_count(), 1u);
}

TEST_F(LocksTest, FlockBelongsToItsHandle) {
  Created file = Create("f");
  Created again = Again(file, O_RDONLY);
  EXPECT_EQ(Flock(file, 1, F_WRLCK), 0);
  EXPECT_EQ(Flock(again, 2, F_RDLCK), EAGAIN);
  EXPECT_EQ(Lock(again, 2, F_RDLCK), 0);  // a record lock does not conflict with flock
  Flush(file, 1);
  EXPECT_EQ(Flock(again, 2, F_RDLCK), EAGAIN);
  EXPECT_EQ(Flock(file, 1, F_UNLCK), 0);
  EXPECT_EQ(Flock(again, 2, F_WRLCK), 0);
  const int local = open(Local("f").c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(flock(local, LOCK_SH | LOCK_NB), -1);
  Release(again);
  EXPECT_EQ(flock(local, LOCK_SH), 0);
  close(local);
}

// As for a restart of the program (docs/restart.md), which then does not happen.
TEST_F(LocksTest, APausedWorkerTakesBackWaitsAndBeginsThemAgain) {
  Created file = Create("f");
  EXPECT_EQ(Lock(file, 1, F_WRLCK), 0);
  const uint64_t waits = BeginWait(file, 2, F_WRLCK);
  EXPECT_EQ(Test(file, 3, F_WRLCK).type, static_cast<uint32_t>(F_WRLCK));  // it was read
  absl::Notification drained;
  worker_->restart().Pause([&drained] { drained.Notify(); });
  ASSERT_TRUE(drained.WaitForNotificationWithTimeout(absl::Seconds(20)));
  std::vector<std::vector<std::byte>> retracted = worker_->restart().TakeRetracted();
  ASSERT_EQ(retracted.size(), 1u);
  fuse_in_header header = {};
  ASSERT_GE(retracted[0].size(), sizeof(header));
  std::memcpy(&header, retracted[0].data(), sizeof(header));
  EXPECT_EQ(header.unique, waits);
  EXPECT_EQ(header.len, retracted[0].size());
  const uint64_t look = kernel_.Send(FUSE_LOOKUP, kRootNode, Name("f"));
  worker_->Resume(UniqueFd(), std::move(retracted));
  EXPECT_EQ(kernel_.Receive().unique, look);
  const uint64_t unlock =
      kernel_.Send(FUSE_SETLK, file.entry.nodeid, Lk(file, 1, F_UNLCK, 0, kMost));
  const FakeKernel::Answer answers[] = {kernel_.Receive(), kernel_.Receive()};
  EXPECT_THAT((std::vector<uint64_t>{answers[0].unique, answers[1].unique}),
              testing::UnorderedElementsAre(unlock, waits));
  EXPECT_EQ(answers[0].error, 0);
  EXPECT_EQ(answers[1].error, 0);
  Flush(file, 2);
}

TEST_F(LocksTest, AWaitEndsWithTheLockOrBySignal) {
  Created file = Create("f");
  EXPECT_EQ(Lock(file, 1, F_WRLCK), 0);
  kernel_.pid = static_cast<uint32_t>(getpid());  // a live process that is not being killed
  const uint64_t first = BeginWait(file, 2, F_WRLCK), second = BeginWait(file, 3, F_WRLCK);
  EXPECT_EQ(Lock(file, 4, F_RDLCK), EAGAIN);  // the two waits block no other request
  Interrupt(second);
  FakeKernel::Answer answer = kernel_.Receive();
  EXPECT_EQ(answer.unique, second);
  EXPECT_EQ(answer.error, EINTR);
  kernel_.Send(FUSE_SETLK, file.entry.nodeid, Lk(file, 1, F_UNLCK));
  for (int i = 0; i < 2; ++i) {
    answer = kernel_.Receive();
    EXPECT_EQ(answer.error, 0);
  }
  EXPECT_EQ(answer.unique, first);
  EXPECT_EQ(Lock(file, 1, F_RDLCK), EAGAIN);
  Interrupt(first);  // too late: it has no effect
  EXPECT_EQ(Lock(file, 2, F_UNLCK), 0);
}

TEST_F(LocksTest, ACycleOfWaitsIsADeadlockForRecordLocksOnly) {
  Created f = Create("f"), g = Create("g");
  EXPECT_EQ(Lock(f, 1, F_WRLCK), 0);
  EXPECT_EQ(Lock(g, 2, F_WRLCK), 0);
  const uint64_t waits = BeginWait(g, 1, F_WRLCK);
  EXPECT_EQ(kernel_.Call(FUSE_SETLKW, f.entry.nodeid, Lk(f, 2, F_WRLCK)).error, EDEADLK);
  // The reply to the waiter and the reply to the FLUSH may arrive in any order.
  const uint64_t flush = kernel_.Send(FUSE_FLUSH, g.entry.nodeid, FlushBody(g, 2));
  const uint64_t answers[] = {kernel_.Receive().unique, kernel_.Receive().unique};
  EXPECT_THAT(answers, testing::UnorderedElementsAre(waits, flush));
  Flush(g, 1);
  // Two handles hold a shared flock, and each waits for an exclusive one: one gets it.
  Created again = Again(g);
  EXPECT_EQ(Flock(g, 1, F_RDLCK), 0);
  EXPECT_EQ(Flock(again, 2, F_RDLCK), 0);
  const uint64_t one = BeginWait(g, 1, F_WRLCK, FUSE_LK_FLOCK);
  const uint64_t two = BeginWait(again, 2, F_WRLCK, FUSE_LK_FLOCK);
  FakeKernel::Answer answer = kernel_.Receive();
  EXPECT_EQ(answer.error, 0);
  const bool first = answer.unique == one;
  const uint64_t unlock =
      kernel_.Send(FUSE_SETLK, g.entry.nodeid,
                   Lk(first ? g : again, first ? 1 : 2, F_UNLCK, 0, kMost, FUSE_LK_FLOCK));
  const uint64_t last[] = {kernel_.Receive().unique, kernel_.Receive().unique};
  EXPECT_THAT(last, testing::UnorderedElementsAre(first ? two : one, unlock));
}

TEST_F(LocksTest, AClosedDescriptorDoesNotEndTheWaitOfAnotherThread) {
  Created file = Create("f");
  EXPECT_EQ(Lock(file, 1, F_WRLCK, 0, 9), 0);
  EXPECT_EQ(Lock(file, 2, F_WRLCK, 50, 59), 0);
  const uint64_t waits = BeginWait(file, 2, F_WRLCK);
  EXPECT_EQ(Lock(file, 3, F_RDLCK, 50, 59), EAGAIN);
  Flush(Again(file), 2);  // ends the locks of 2, but not its wait
  EXPECT_EQ(Lock(file, 3, F_RDLCK, 50, 59), 0);
  EXPECT_EQ(Lock(file, 3, F_UNLCK), 0);
  kernel_.Send(FUSE_SETLK, file.entry.nodeid, Lk(file, 1, F_UNLCK));
  FakeKernel::Answer answer;
  for (int i = 0; i < 2; ++i) answer = kernel_.Receive();
  EXPECT_EQ(answer.unique, waits);
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(Lock(file, 1, F_RDLCK), EAGAIN);
  Flush(file, 2);
  EXPECT_EQ(Lock(file, 1, F_RDLCK), 0);
}

TEST_F(LocksTest, ALockInvalidatesPagesIfAnotherClientHasWritten) {
  Created file = Create("f");
  kernel_.Call(FUSE_GETATTR, file.entry.nodeid, Raw(fuse_getattr_in{}));
  kernel_.notifications.clear();
  EXPECT_EQ(Lock(file, 1, F_WRLCK), 0);
  EXPECT_TRUE(kernel_.notifications.empty());  // no other client has written
  std::ofstream(Local("f")) << "written on the server";
  EXPECT_EQ(Lock(file, 1, F_WRLCK, 5, 5), 0);
  ASSERT_EQ(kernel_.notifications.size(), 1u);
  EXPECT_EQ(kernel_.notifications[0].error, FUSE_NOTIFY_INVAL_INODE);
  EXPECT_EQ(kernel_.notifications[0].As<fuse_notify_inval_inode_out>().ino, file.entry.nodeid);
  EXPECT_EQ(kernel_.notifications[0].As<fuse_notify_inval_inode_out>().off, 0);  // the pages too
  kernel_.Call(FUSE_GETATTR, file.entry.nodeid, Raw(fuse_getattr_in{}));
  EXPECT_EQ(Lock(file, 1, F_WRLCK, 7, 7), 0);  // no write since
  EXPECT_EQ(kernel_.notifications.size(), 1u);
}

TEST_F(LocksTest, MalformedLockRequestsAreRefused) {
  Created file = Create("f");
  EXPECT_EQ(kernel_.Call(FUSE_SETLK, file.entry.nodeid, "short").error, EINVAL);
  EXPECT_EQ(kernel_.Call(FUSE_GETLK, file.entry.nodeid, "short").error, EINVAL);
  EXPECT_EQ(Lock(file, 1, F_WRLCK, 5, 4), EINVAL);
  EXPECT_EQ(Lock(file, 1, F_WRLCK, 0, kMost + 1), EINVAL);
  EXPECT_EQ(Lock(file, 1, 17), EINVAL);
  Created gone = file;
  gone.open.fh = 12345;
  EXPECT_EQ(Lock(gone, 1, F_WRLCK), EBADF);
  EXPECT_EQ(kernel_.Call(FUSE_GETLK, file.entry.nodeid, Lk(gone, 1, F_WRLCK)).error, EBADF);
}

TEST(CallerCallTest, RecognisesTheSystemCallOfTheWaitingThread) {
  char name[] = "/tmp/dafs-proc-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string directory = name;
  std::filesystem::create_directory(directory + "/7");
  std::filesystem::create_symlink(std::to_string(getpid()), directory + "/self");
  const CallerProc proc(directory);
  const auto says = [&](const char* text) {
    std::ofstream(directory + "/7/syscall") << text;
    return WaitsForOfdLock(7, proc);
  };
  EXPECT_TRUE(says("72 0x3 0x26 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7f00\n"));
  EXPECT_FALSE(says("72 0x3 0x7 0x7ffd 0x0 0x0 0x0 0x7ffd 0x7f00\n"));
  EXPECT_FALSE(says("running\n"));
  EXPECT_FALSE(WaitsForOfdLock(8, proc));
  EXPECT_EQ(ChangesOwner(7, proc), std::nullopt);
  EXPECT_EQ(ChangesOwner(8, proc), std::nullopt);
  says(absl::StrCat(SYS_fchownat, " 0xffffff9c 0x7ffd 0xffffffff\n").c_str());
  EXPECT_EQ(ChangesOwner(7, proc), true);
  says(absl::StrCat(SYS_write, " 0x3 0x7ffd 0x2\n").c_str());
  EXPECT_EQ(ChangesOwner(7, proc), false);
  std::filesystem::remove_all(directory);
}

TEST(LockOwnersTest, AnOwnerEndsOnceAndIsNotReused) {
  LockOwners owners;
  LockOwner fresh;
  fresh.nodeid = 5;
  fresh.kernel_owner = 9;
  fresh.number = 1;
  LockOwnerRef one = owners.Enter(fresh, 100, 4242);
  fresh.number = 2;
  EXPECT_EQ(owners.Enter(fresh, 101, 4243), one);
  EXPECT_EQ(one->name, wire::ProcessOwner(1, 1));
  EXPECT_EQ(owners.PidOf(wire::ProcessOwner(1, 1)), 4243u);
  EXPECT_FALSE(owners.Leave(*one));
  EXPECT_TRUE(owners.EndHandle(100).empty());  // the owner also has locks through handle 101
  std::vector<LockOwners::Ended> ended = owners.EndHandle(101);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_FALSE(ended[0].unused);
  EXPECT_TRUE(owners.HasEnded(*one));
  EXPECT_EQ(owners.EnterExisting(5, 9), nullptr);
  EXPECT_EQ(owners.End(5, 9).owner, nullptr);
  LockOwnerRef two = owners.Enter(fresh, 101, 1);
  EXPECT_NE(two, one);
  EXPECT_TRUE(owners.Leave(*one));
  EXPECT_FALSE(owners.Leave(*two));
  EXPECT_TRUE(owners.End(5, 9).unused);
  EXPECT_EQ(owners.size(), 0u);
  EXPECT_FALSE(owners.PidOf(wire::ProcessOwner(2, 2)).has_value());
}

// The owners of one process, of several files, have a common process. The kernel may give the
// number of a process that has ended to another one.
TEST(LockOwnersTest, OwnersOfOneProcessAreKnown) {
  LockOwners owners;
  const auto enter = [&](uint64_t nodeid, uint64_t kernel_owner) {
    LockOwner fresh;
    fresh.nodeid = nodeid;
    fresh.kernel_owner = kernel_owner;
    fresh.number = nodeid;
    return owners.Enter(fresh, 100 + nodeid, 1)->process;
  };
  const uint64_t process = enter(5, 9);
  EXPECT_NE(process, 0u);
  EXPECT_EQ(enter(6, 9), process);
  EXPECT_NE(enter(5, 10), process);
  EXPECT_EQ(wire::ProcessOf(owners.EnterExisting(5, 9)->name),
            wire::ProcessOf(owners.EnterExisting(6, 9)->name));
  owners.End(5, 9);
  EXPECT_EQ(enter(7, 9), process);
  owners.EndHandle(106);
  owners.EndHandle(107);
  EXPECT_NE(enter(5, 9), process);
}

}  // namespace
}  // namespace dafs::fuse
