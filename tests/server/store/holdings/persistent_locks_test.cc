// PERSIST locks: what stays of them when their holder, its client or the server fails, and what
// others may do meanwhile. Spec: 4.4.1.3, 4.4.1.5, 4.4.1.6, 6.5.18.
#include "server/store/holdings/persistent_locks.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/store/access/locks/reads_under_way.h"
#include "tests/server/store/recorded_locks_fixture.h"

namespace dafs::server {
namespace {

using wire::LockType;

class PersistentLocksTest : public RecordedLocksTest {
 protected:
  DafsStatus Lock(const Caller& caller, const Opened& opened, uint64_t offset, uint64_t length,
                  uint32_t options, LockType type = LockType::kWrite) {
    return LockOnce(caller, opened, offset, length, options, type);
  }
  DafsStatus Test(const Caller& caller, uint64_t offset, uint64_t length) {
    wire::LocktArgs args;
    args.filehandle = mine_.filehandle;
    args.owner = "tester";
    args.offset = offset;
    args.length = length;
    args.lock_type = LockType::kWrite;
    wire::LocktRes res;
    return store_->locks().Lockt(caller, args, &res);
  }
  // The next instance of the server. Its clients have no opens yet.
  void Restart() {
    Start();
    OpenAgain();
  }
};

// Shows DAFS-4.4.1.3-03, DAFS-4.4.1.3-04, DAFS-4.4.1.3-10, DAFS-4.4.1.5-03.
TEST_F(PersistentLocksTest, AConflictingLockBreaksThatOfAFailedClient) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  EXPECT_EQ(States(), std::vector{State::kHeld});
  EXPECT_DAFS(kDenied, Lock(other_, theirs_, 2, 4, 0));
  store_->releases().ExpireClient(user_.client_id);
  EXPECT_EQ(States(), std::vector{State::kBreakable});
  EXPECT_OK(Lock(other_, theirs_, 4, 4, 0));  // beside it
  EXPECT_DAFS(kDenied, Test(other_, 2, 4));   // breaks nothing
  EXPECT_EQ(States(), std::vector{State::kBreakable});
  EXPECT_DAFS(kLockBroken, Lock(other_, theirs_, 2, 1, 0));
  EXPECT_EQ(States(), std::vector{State::kBroken});
  EXPECT_EQ(result_.owner, "owner");
  EXPECT_EQ(result_.offset, 0u);
  EXPECT_EQ(result_.length, 4u);
  EXPECT_DAFS(kLockBroken, Lock(other_, theirs_, 0, 10, wire::kLockPersist));
  EXPECT_DAFS(kLockBroken, Test(other_, 2, 4));
  mine_ = MustOpen(user_, OpenArgs(A(), "f"));
  EXPECT_DAFS(kLockBroken, Lock(user_, mine_, 0, 4, wire::kLockPersist));  // its former holder
}

// Shows DAFS-4.4.1.5-02.
TEST_F(PersistentLocksTest, AFailedHolderMayLockAgainBeforeAnyoneElse) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  store_->releases().ExpireClient(user_.client_id);
  mine_ = MustOpen(user_, OpenArgs(A(), "f"));
  EXPECT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  EXPECT_EQ(States(), std::vector{State::kHeld});
  EXPECT_DAFS(kDenied, Lock(other_, theirs_, 0, 4, 0));
}

// Shows DAFS-4.4.1.3-05.
TEST_F(PersistentLocksTest, ANewInstanceOfTheClientBreaksItAtOnce) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  const Caller again = Client("node1", 7, 2);
  store_->releases().SupersedeClient(user_.client_id, again.client_id, "node1");
  store_->persistent_locks().Arrived("node1", again.client_verifier);
  EXPECT_EQ(States(), std::vector{State::kBroken});
  const Opened opened = MustOpen(again, OpenArgs(A(), "f"));
  EXPECT_DAFS(kLockBroken, Lock(again, opened, 0, 4, 0));
  store_->persistent_locks().Arrived("node1", again.client_verifier);
  EXPECT_EQ(States(), std::vector{State::kBroken});
}

TEST_F(PersistentLocksTest, IsNotGrantedDuringAReadThatItForbids) {
  std::optional<ReadUnderWay> read(std::in_place, KeyOf(mine_.filehandle));
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist, LockType::kRead));  // forbids none
  absl::Notification answered;
  std::thread locker([&] {
    EXPECT_OK(Lock(user_, mine_, 4, 4, wire::kLockPersist));
    answered.Notify();
  });
  while (States().size() < 2) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(answered.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  read.reset();
  locker.join();
}

// A file whose last block user_ locks again and again, while other_ reads or writes all of it: a
// lock that is granted too early is granted before other_ reaches that block.
class LockedTailTest : public PersistentLocksTest {
 protected:
  static constexpr size_t kSize = size_t{1} << 20, kTail = 4096, kTailAt = kSize - kTail;
  static constexpr int kRounds = 100;

  void SetUp() override {
    PersistentLocksTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_OK(Write(user_, mine_, 0, std::string(kSize, 'A')));
  }
  // Locks the tail, runs `locked`, and releases it, while another thread repeats `transfer`. `done`
  // in `locked(done)` returns after the transfer that was under way when the lock was granted, and
  // the next one, which is refused.
  template <class Transfer, class Locked>
  void Contend(Transfer transfer, Locked locked) {
    std::atomic<uint64_t> begun = 0, ended = 0;
    std::atomic<bool> stop = false;
    std::thread other([&] {
      while (!stop) {
        ++begun;
        transfer();
        ++ended;
      }
    });
    for (int round = 0; round < kRounds && !HasFailure(); ++round) {
      const uint64_t before = begun;
      while (begun == before) std::this_thread::yield();  // a transfer has just begun
      EXPECT_OK(Lock(user_, mine_, kTailAt, kTail, wire::kLockPersist));
      const uint64_t granted = begun;
      locked([&] {
        while (ended <= granted) std::this_thread::yield();
      });
      EXPECT_OK(Unlock(user_, mine_, kTailAt, kTail));
    }
    stop = true;
    other.join();
  }
};

// Shows DAFS-4.4.1.2-04 (reads): none returns what the holder wrote under its lock.
TEST_F(LockedTailTest, IsNotGrantedDuringARead) {
  std::atomic<int> refused = 0;
  Contend(
      [&] {
        const std::string read = Read(other_, theirs_, 0, kSize);
        if (read == "DAFSERR_LOCKED") {
          ++refused;
        } else {
          EXPECT_EQ(read.size(), kSize);
          EXPECT_EQ(read.find('B'), std::string::npos);
        }
      },
      [&](auto done) {
        EXPECT_OK(Write(user_, mine_, kTailAt, std::string(kTail, 'B')));
        done();
        EXPECT_OK(Write(user_, mine_, kTailAt, std::string(kTail, 'A')));
      });
  EXPECT_GT(refused, 0);
}

// Shows DAFS-4.4.1.2-04 (writes): none changes what the holder has read under its lock.
TEST_F(LockedTailTest, IsNotGrantedDuringAWrite) {
  char next = 'a';
  std::atomic<int> refused = 0;
  Contend(
      [&] {
        next = next == 'z' ? 'a' : static_cast<char>(next + 1);
        const DafsStatus status = Write(other_, theirs_, 0, std::string(kSize, next));
        if (status == DafsStatus::kLocked) {
          ++refused;
        } else {
          EXPECT_EQ(status, DafsStatus::kOk);
        }
      },
      [&](auto done) {
        const std::string before = Read(user_, mine_, kTailAt, kTail);
        done();
        EXPECT_EQ(Read(user_, mine_, kTailAt, kTail), before);
      });
  EXPECT_GT(refused, 0);
}

// Shows DAFS-4.4.1.3-06, DAFS-4.4.1.3-07, DAFS-4.4.1.3-08. Shows DAFS-6.5.27-07: locks with PERSIST
// are mandatory; without this option and AUTORECOVERY, locks keep no client from the data.
TEST_F(PersistentLocksTest, RangesAreMandatoryAndABrokenOneIsRefusedToAll) {
  ASSERT_OK(Lock(user_, mine_, 4, 4, wire::kLockPersist));
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 6, "xx"));
  EXPECT_EQ(Read(other_, theirs_), "DAFSERR_LOCKED");
  EXPECT_OK(Write(other_, theirs_, 2, "ab"));
  EXPECT_OK(Write(user_, mine_, 4, "cd"));
  wire::FileAttributes size;
  size.set(wire::kFattrObjectSize);
  size.object_size = 5;
  uint64_t set = 0;
  EXPECT_DAFS(kLocked, store_->attributes().Setattr(other_, theirs_.filehandle, theirs_.state_id,
                                                    size, &set));
  wire::OpenArgs truncating = CreateArgs(A(), "f");
  truncating.createattrs.set(wire::kFattrObjectSize);
  wire::OpenRes open_res;
  truncating.owner = "another";
  EXPECT_DAFS(kLocked, store_->opens().Open(other_, truncating, &open_res));
  wire::AllocateArgs hole;
  hole.filehandle = theirs_.filehandle;
  hole.state_id = theirs_.state_id;
  hole.offset = 0;
  hole.length = 5;
  EXPECT_DAFS(kLocked, store_->data().Allocate(other_, hole));
  // Others may read what is locked for reading.
  ASSERT_OK(Lock(user_, mine_, 4, 4, wire::kLockPersist, LockType::kRead));
  EXPECT_EQ(Read(other_, theirs_), "01abcd6789");
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 6, "xx"));

  store_->releases().ExpireClient(user_.client_id);
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 6, "xx"));  // breakable: as if it were held
  ASSERT_DAFS(kLockBroken, Lock(other_, theirs_, 4, 1, 0));
  EXPECT_DAFS(kStaleStateId, Write(other_, theirs_, 6, "xx"));
  EXPECT_EQ(Read(other_, theirs_), "DAFSERR_STALE_STATEID");
  EXPECT_DAFS(kLocked, Write(other_, {theirs_.filehandle, {}}, 6, "xx"));
  EXPECT_EQ(Read(other_, {theirs_.filehandle, {}}), "DAFSERR_LOCKED");
  EXPECT_OK(Write(other_, theirs_, 0, "ok"));
  mine_ = MustOpen(user_, OpenArgs(A(), "f"));
  EXPECT_DAFS(kStaleStateId, Write(user_, mine_, 6, "xx"));
  EXPECT_EQ(FileContent(Path("a/f")), "okabcd6789");
}

// Shows DAFS-4.4.1.3-01, DAFS-4.4.1.3-09, DAFS-4.4.1.3-11.
TEST_F(PersistentLocksTest, RepairTakesTheBrokenLockOverAndUnlockEndsIt) {
  ASSERT_OK(Lock(user_, mine_, 2, 4, wire::kLockPersist));
  store_->releases().ExpireClient(user_.client_id);
  ASSERT_DAFS(kLockBroken, Lock(other_, theirs_, 0, 10, 0));
  EXPECT_DAFS(kInval, Lock(other_, theirs_, 6, 2, wire::kLockRepair));  // nothing broken there
  EXPECT_DAFS(kLockRange, Lock(other_, theirs_, 3, 10, wire::kLockRepair));
  EXPECT_DAFS(kInval, Lock(other_, theirs_, 2, 4, wire::kLockRepair | wire::kLockReclaim));
  ASSERT_OK(Lock(other_, theirs_, 2, 4, wire::kLockRepair));
  EXPECT_EQ(States(), std::vector{State::kInRepair});
  EXPECT_OK(Write(other_, theirs_, 2, "fixd"));
  mine_ = MustOpen(user_, OpenArgs(A(), "f"));
  EXPECT_DAFS(kLocked, Write(user_, mine_, 2, "x"));
  EXPECT_DAFS(kDenied, Lock(user_, mine_, 2, 4, 0));
  EXPECT_DAFS(kDenied, Lock(user_, mine_, 2, 4, wire::kLockRepair));

  // The repairer fails, too.
  store_->releases().ExpireClient(other_.client_id);
  EXPECT_EQ(States(), std::vector{State::kBroken});
  EXPECT_DAFS(kLockBroken, Lock(user_, mine_, 2, 4, 0));
  ASSERT_OK(Lock(user_, mine_, 0, 10, wire::kLockRepair));
  ASSERT_OK(Unlock(user_, mine_, 0, 4));
  EXPECT_EQ(States(), std::vector{State::kInRepair});  // bytes 4 and 5
  ASSERT_OK(Unlock(user_, mine_, 4, 10));
  EXPECT_TRUE(States().empty());
  theirs_ = MustOpen(other_, OpenArgs(A(), "f"));
  EXPECT_OK(Lock(other_, theirs_, 0, 10, 0));
  EXPECT_OK(Write(other_, theirs_, 2, "free"));
}

TEST_F(PersistentLocksTest, UnlockAndCloseOfALivingHolderLeaveNothing) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  ASSERT_OK(Unlock(user_, mine_, 1, 2));
  EXPECT_EQ(States(), (std::vector{State::kHeld, State::kHeld}));
  ASSERT_OK(Unlock(user_, mine_, 0, 4));
  EXPECT_TRUE(States().empty());
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  ASSERT_OK(Close(user_, mine_));
  EXPECT_TRUE(States().empty());
  Restart();
  EXPECT_TRUE(States().empty());
  EXPECT_OK(Lock(other_, theirs_, 0, 4, 0));
}

// Shows DAFS-4.4.1.3-02, DAFS-4.4.1.6-08.
TEST_F(PersistentLocksTest, StatesSurviveTheServer) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  ASSERT_OK(Lock(user_, mine_, uint64_t{1} << 63, wire::kLockToEnd, wire::kLockPersist));
  Restart();
  EXPECT_EQ(States(), (std::vector{State::kBreakable, State::kBreakable}));
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 0, "x"));
  // No grace period is active: that it has ended does not matter before another client asks.
  EXPECT_OK(Lock(user_, mine_, 0, 4, wire::kLockReclaim));
  EXPECT_DAFS(kDenied, Lock(other_, theirs_, 0, 4, 0));
  EXPECT_DAFS(kLockBroken, Lock(other_, theirs_, uint64_t{1} << 63, 1, 0));
  Restart();
  EXPECT_DAFS(kLockBroken, Lock(other_, theirs_, 0, 1, 0));
  EXPECT_EQ(Lock(user_, mine_, 0, 4, wire::kLockReclaim), DafsStatus::kExpired);
  Restart();
  EXPECT_EQ(States(), (std::vector{State::kBroken, State::kBroken}));
  ASSERT_OK(Lock(other_, theirs_, 0, wire::kLockToEnd, wire::kLockRepair));
  Restart();  // a repair that was not finished
  EXPECT_EQ(States(), (std::vector{State::kBroken, State::kBroken}));
  ASSERT_OK(Lock(other_, theirs_, 0, wire::kLockToEnd, wire::kLockRepair));
  ASSERT_OK(Unlock(other_, theirs_, 0, wire::kLockToEnd));
  Restart();
  EXPECT_TRUE(States().empty());
}

TEST_F(PersistentLocksTest, AnotherInstanceOfTheClientMayNotReclaim) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  Restart();
  const Caller again = Client("node1", 7, 2);
  const Opened opened = MustOpen(again, OpenArgs(A(), "f"));
  EXPECT_DAFS(kExpired, Lock(again, opened, 0, 4, wire::kLockReclaim));
  EXPECT_DAFS(kLocked, Write(again, opened, 0, "x"));
  EXPECT_DAFS(kLockBroken, Lock(again, opened, 0, 4, wire::kLockPersist));
}

// A flock(2) lock stands for the whole file.
TEST_F(PersistentLocksTest, AFlockLockIsMandatoryForTheWholeFile) {
  ASSERT_OK(Lock(user_, mine_, wire::kFlockByte, wire::kLockToEnd, wire::kLockPersist));
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 0, "xx"));
  EXPECT_DAFS(kLocked, Write(other_, theirs_, uint64_t{1} << 40, "xx"));
  EXPECT_OK(Write(user_, mine_, 0, "xx"));
  store_->releases().ExpireClient(user_.client_id);
  ASSERT_DAFS(kLockBroken, Lock(other_, theirs_, wire::kFlockByte, wire::kLockToEnd, 0));
  EXPECT_EQ(Read(other_, theirs_), "DAFSERR_STALE_STATEID");
  ASSERT_OK(Lock(other_, theirs_, wire::kFlockByte, wire::kLockToEnd, wire::kLockRepair));
  EXPECT_OK(Write(other_, theirs_, 0, "ok"));
}

TEST_F(PersistentLocksTest, LockOfAReaderDoesNotBlockOtherReaders) {
  wire::OpenArgs args = OpenArgs(A(), "f");
  args.owner = "reader";
  args.share_access = wire::kShareRead;
  const Opened reader = MustOpen(user_, args);
  EXPECT_DAFS(kAcces, Lock(user_, reader, 0, 4, wire::kLockPersist));
  for (const uint32_t option : {wire::kLockPersist, wire::kLockRepair}) {
    EXPECT_DAFS(kAcces, Lock(user_, reader, wire::kFlockByte, wire::kLockToEnd, option));
  }
  EXPECT_OK(Lock(user_, reader, wire::kFlockByte, wire::kLockToEnd, 0));  // advisory
  EXPECT_OK(Lock(user_, reader, 0, 4, wire::kLockPersist, LockType::kRead));
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 0, "xx"));
  EXPECT_EQ(Read(other_, theirs_), "0123456789");
}

TEST_F(PersistentLocksTest, AClientWithManyBrokenLocksGetsNoOtherPersistentLock) {
  for (uint64_t i = 0; i < PersistentLocks::kMostBroken; ++i) {
    ASSERT_OK(Lock(user_, mine_, 2 * i, 1, wire::kLockPersist));
  }
  const Caller again = Client("node1", 7, 2);
  store_->releases().SupersedeClient(user_.client_id, again.client_id, "node1");
  store_->persistent_locks().Arrived("node1", again.client_verifier);
  const Opened opened = MustOpen(again, OpenArgs(A(), "f"));
  EXPECT_DAFS(kResource, Lock(again, opened, 1, 1, wire::kLockPersist));
  EXPECT_OK(Lock(again, opened, 1, 1, 0));
  ASSERT_OK(Unlock(again, opened, 1, 1));
  EXPECT_OK(Lock(other_, theirs_, 1, 1, wire::kLockPersist));
  ASSERT_OK(Lock(again, opened, 4, 1, wire::kLockRepair));
  ASSERT_OK(Unlock(again, opened, 4, 1));
  EXPECT_OK(Lock(again, opened, 4, 1, wire::kLockPersist));
}

TEST_F(PersistentLocksTest, OtherFilesAndOrdinaryLocksCostNothing) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, 0));
  EXPECT_FALSE(store_->persistent_locks().MayConcern(KeyOf(mine_.filehandle)));
  EXPECT_OK(Write(other_, theirs_, 0, "advisory"));
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  EXPECT_TRUE(store_->persistent_locks().MayConcern(KeyOf(mine_.filehandle)));
  size_t concerned = 0;
  for (int i = 0; i < 20; ++i) {
    const Opened file = MustOpen(other_, CreateArgs(A(), "other" + std::to_string(i)));
    concerned += store_->persistent_locks().MayConcern(KeyOf(file.filehandle)) ? 1 : 0;
    EXPECT_OK(Write(other_, file, 0, "x"));
  }
  EXPECT_LT(concerned, 20u);
  ASSERT_OK(Unlock(user_, mine_, 0, 4));
  EXPECT_FALSE(store_->persistent_locks().MayConcern(KeyOf(mine_.filehandle)));
}

TEST_F(PersistentLocksTest, TheLocksOfARemovedFileAreForgotten) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  ASSERT_EQ(unlink(Path("a/f").c_str()), 0);
  store_->ForgetRemoved();
  EXPECT_EQ(States(), std::vector{State::kHeld});  // still open
  store_->releases().ExpireClient(user_.client_id);
  store_->releases().ExpireClient(other_.client_id);
  for (int i = 0; i < Store::kForgetCalls; ++i) store_->ForgetRemoved();
  EXPECT_TRUE(States().empty());
}

TEST_F(PersistentLocksTest, AnAdministratorForgetsBrokenLocks) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  store_->releases().ExpireClient(user_.client_id);
  size_t count = 9;
  const ObjectKey key = store_->persistent_locks().List().at(0).file;
  EXPECT_OK(store_->persistent_locks().Forget(key, &count));
  EXPECT_EQ(count, 0u);
  ASSERT_DAFS(kLockBroken, Lock(other_, theirs_, 0, 4, 0));
  EXPECT_OK(store_->persistent_locks().Forget(key, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_OK(Lock(other_, theirs_, 0, 4, 0));
  Restart();
  EXPECT_TRUE(States().empty());
}

}  // namespace
}  // namespace dafs::server
