// AUTORECOVERY locks: what was changed under one is undone if its holder fails.
// Spec: 4.4.1.4, 4.4.1.5, 4.4.1.6, 6.5.18.
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <random>

#include "server/store/holdings/undo/undo_log.h"
#include "server/store/parts/rollbacks.h"
#include "tests/server/files_in.h"
#include "tests/server/store/recorded_locks_fixture.h"

namespace dafs::server {
namespace {

using wire::LockType;

constexpr uint32_t kAuto = wire::kLockAutorecovery;
constexpr uint32_t kBoth = wire::kLockAutorecovery | wire::kLockPersist;

class AutoRecoveryTest : public RecordedLocksTest {
 protected:
  // Repeats it after each DELAY, once nothing is to be undone any more.
  DafsStatus Lock(const Caller& caller, const Opened& opened, uint64_t offset, uint64_t length,
                  uint32_t options, LockType type = LockType::kWrite) {
    DafsStatus status = DafsStatus::kDelay;
    for (int i = 0; i < 10 && status == DafsStatus::kDelay; ++i) {
      status = LockOnce(caller, opened, offset, length, options, type);
      if (status == DafsStatus::kDelay) store_->rollbacks().AwaitIdle();
    }
    return status;
  }
  DafsStatus Abort(const Caller& caller, const Opened& opened, uint64_t offset, uint64_t length) {
    return Lock(caller, opened, offset, length, 0, LockType::kAbort);
  }
  DafsStatus Resize(const Caller& caller, const Opened& opened, uint64_t to) {
    wire::FileAttributes size;
    size.set(wire::kFattrObjectSize);
    size.object_size = to;
    uint64_t set = 0;
    return store_->attributes().Setattr(caller, opened.filehandle, opened.state_id, size, &set);
  }
  DafsStatus Append(const Caller& caller, const Opened& opened, std::string data) {
    const iovec v = {data.data(), data.size()};
    AppendResult res;
    return store_->data().Append(caller, opened.filehandle, opened.state_id, {&v, 1},
                                 wire::StableHow::kDataSync, &res);
  }
  DafsStatus Allocate(const Caller& caller, const Opened& opened, wire::AllocateMode mode,
                      uint64_t offset, uint64_t length) {
    wire::AllocateArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.mode = mode;
    args.offset = offset;
    args.length = length;
    return store_->data().Allocate(caller, args);
  }
  DafsStatus CopyRange(const Caller& caller, const Opened& opened, uint64_t from, uint64_t to,
                       uint64_t length) {
    wire::CopyRangeArgs args;
    args.filehandle = args.source_filehandle = opened.filehandle;
    args.state_id = args.source_state_id = opened.state_id;
    args.source_offset = from;
    args.offset = to;
    args.length = length;
    wire::CopyRangeRes res;
    return store_->data().CopyRange(caller, args, &res);
  }
  void Expire(const Caller& caller) {
    store_->releases().ExpireClient(caller.client_id);
    store_->rollbacks().AwaitIdle();
  }
  // The next instance of the server. No grace period is active.
  void Restart() { Restart(Options()); }
  void Restart(StoreOptions options) {
    Start(std::move(options));
    OpenAgain();
  }
  std::string Content() { return FileContent(Path("a/f")); }
  size_t UndoFiles() { return FilesIn(Path("a/.dafsd-orphans")); }
};

// Shows DAFS-4.4.1.4-01, DAFS-4.4.1.4-05.
TEST_F(AutoRecoveryTest, WithoutAFailureItIsALockAsAnyOther) {
  ASSERT_OK(Lock(user_, mine_, 0, 8, kAuto));
  EXPECT_DAFS(kDenied, Lock(other_, theirs_, 4, 8, 0));
  EXPECT_OK(Lock(other_, theirs_, 8, 8, 0));
  EXPECT_OK(Write(user_, mine_, 2, "ab"));
  EXPECT_EQ(UndoFiles(), 1u);
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 0, "x"));  // mandatory among clients
  EXPECT_OK(Write(other_, theirs_, 8, "x"));
  ASSERT_OK(Unlock(user_, mine_, 0, 8));
  EXPECT_EQ(Content(), "01ab4567x9");
  EXPECT_TRUE(States().empty());
  EXPECT_EQ(UndoFiles(), 0u);
  EXPECT_EQ(store_->undo_log().used_bytes(), 0u);
  EXPECT_OK(Lock(other_, theirs_, 4, 8, 0));
  // CLOSE ends it as well.
  ASSERT_OK(Unlock(other_, theirs_, 0, wire::kLockToEnd));
  ASSERT_OK(Lock(user_, mine_, 0, wire::kLockToEnd, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "closed"));
  ASSERT_OK(Close(user_, mine_));
  EXPECT_EQ(Content(), "closed67x9");
  EXPECT_EQ(UndoFiles(), 0u);
}

// Shows DAFS-4.4.1.4-02, DAFS-4.4.1.5-05.
TEST_F(AutoRecoveryTest, TheEndOfALeaseUndoesChangesAndRevokesTheLock) {
  ASSERT_OK(Lock(user_, mine_, 0, wire::kLockToEnd, kAuto));
  EXPECT_OK(Write(user_, mine_, 2, "ab"));
  EXPECT_OK(Append(user_, mine_, "tail"));
  EXPECT_OK(CopyRange(user_, mine_, 10, 4, 4));
  EXPECT_EQ(Content(), "01abtail89tail");
  EXPECT_OK(Resize(user_, mine_, 3));
  EXPECT_OK(Write(user_, mine_, 100, "far"));
  EXPECT_OK(Allocate(user_, mine_, wire::AllocateMode::kPunchHole, 0, 5));
  EXPECT_NE(Content(), kBefore);
  Expire(user_);
  EXPECT_EQ(Content(), kBefore);
  EXPECT_TRUE(States().empty());
  EXPECT_EQ(UndoFiles(), 0u);
  EXPECT_OK(LockOnce(other_, theirs_, 0, wire::kLockToEnd, 0));
  EXPECT_OK(Write(other_, theirs_, 0, "next"));
  EXPECT_EQ(Content(), "next456789");
}

// Shows DAFS-4.4.1.6-06, FAST03-3.2-01.
TEST_F(AutoRecoveryTest, TheRangeIsGivenToOthersOnlyAfterTheUndo) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  // Without its undo file the undo fails, and is repeated.
  const std::string directory = Path("a/.dafsd-orphans");
  ASSERT_EQ(rename(directory.c_str(), Path("a/away").c_str()), 0);
  store_->releases().ExpireClient(user_.client_id);
  EXPECT_DAFS(kDelay, LockOnce(other_, theirs_, 0, 4, 0));
  EXPECT_DAFS(kDelay, LockOnce(other_, theirs_, 3, 4, wire::kLockPersist));
  EXPECT_DAFS(kDelay, Write(other_, theirs_, 0, "x"));
  EXPECT_EQ(Read(other_, theirs_), "DAFSERR_DELAY");
  EXPECT_OK(LockOnce(other_, theirs_, 4, 4, 0));  // beside it
  EXPECT_EQ(States(), std::vector{State::kUndoing});
  Store::RestoreServerIdentity();
  std::filesystem::remove_all(directory);
  ASSERT_EQ(rename(Path("a/away").c_str(), directory.c_str()), 0);
  store_->rollbacks().AwaitIdle();
  EXPECT_OK(LockOnce(other_, theirs_, 0, 4, 0));
  EXPECT_EQ(Read(other_, theirs_), kBefore);
}

// Shows DAFS-4.4.1.5-07.
TEST_F(AutoRecoveryTest, ANewInstanceOfTheClientUndoesChangesOfTheEarlierOne) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  const Caller again = Client("node1", 7, 2);
  store_->releases().SupersedeClient(user_.client_id, again.client_id, "node1");
  store_->persistent_locks().Arrived("node1", again.client_verifier);
  store_->rollbacks().AwaitIdle();
  EXPECT_EQ(Content(), kBefore);
  EXPECT_TRUE(States().empty());
  EXPECT_OK(LockOnce(again, MustOpen(again, OpenArgs(A(), "f")), 0, 4, 0));
}

// Shows DAFS-4.4.1.4-03, DAFS-4.4.1.4-04.
TEST_F(AutoRecoveryTest, AnUnlockedPartStaysAndTheRestIsUndone) {
  ASSERT_OK(Lock(user_, mine_, 0, 8, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcdefghij"));  // the last two are not locked
  ASSERT_OK(Unlock(user_, mine_, 2, 3));
  EXPECT_EQ(UndoFiles(), 1u);
  Expire(user_);
  EXPECT_EQ(Content(), "01cde567ij");
}

// Shows DAFS-4.4.1.4-08.
TEST_F(AutoRecoveryTest, AbortUndoesChangesAndTheLockStays) {
  EXPECT_OK(Abort(user_, mine_, 0, 4));  // nothing is locked
  ASSERT_OK(Lock(user_, mine_, 0, wire::kLockToEnd, kAuto));
  EXPECT_OK(Abort(user_, mine_, 0, 4));  // nothing was changed
  EXPECT_OK(Write(user_, mine_, 0, "abcdefghijkl"));
  EXPECT_OK(Abort(user_, mine_, 0, 2));
  EXPECT_EQ(Content(), "01cdefghijkl");
  EXPECT_OK(Abort(user_, mine_, 0, wire::kLockToEnd));
  EXPECT_EQ(Content(), kBefore);
  EXPECT_EQ(States(), std::vector{State::kHeld});
  EXPECT_DAFS(kDenied, LockOnce(other_, theirs_, 0, 4, 0));
  // Later changes are protected, too.
  EXPECT_OK(Write(user_, mine_, 0, "again"));
  EXPECT_OK(Abort(user_, mine_, 0, wire::kLockToEnd));
  EXPECT_EQ(Content(), kBefore);
  EXPECT_OK(Write(user_, mine_, 0, "final"));
  ASSERT_OK(Unlock(user_, mine_, 0, wire::kLockToEnd));
  EXPECT_EQ(Content(), "final56789");
}

// Shows DAFS-4.4.1.4-06, DAFS-4.4.1.4-07.
TEST_F(AutoRecoveryTest, APersistentOneIsUndoneOnceItIsBroken) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kBoth));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  Expire(user_);
  EXPECT_EQ(Content(), "abcd456789");
  EXPECT_EQ(States(), std::vector{State::kBreakable});
  // Its client may return and go on, or undo.
  OpenAgain();
  EXPECT_OK(Lock(user_, mine_, 0, 4, kBoth));
  EXPECT_OK(Write(user_, mine_, 2, "CD"));
  EXPECT_EQ(Content(), "abCD456789");
  EXPECT_OK(Abort(user_, mine_, 0, 4));
  EXPECT_EQ(Content(), kBefore);
  EXPECT_OK(Write(user_, mine_, 0, "xy"));
  Expire(user_);
  EXPECT_EQ(Content(), "xy23456789");
  EXPECT_DAFS(kLockBroken, LockOnce(other_, theirs_, 3, 1, 0));
  store_->rollbacks().AwaitIdle();
  EXPECT_EQ(Content(), kBefore);
  EXPECT_EQ(States(), std::vector{State::kBroken});
  EXPECT_DAFS(kStaleStateId, Write(other_, theirs_, 0, "x"));
  EXPECT_OK(LockOnce(other_, theirs_, 0, 4, wire::kLockRepair));
  EXPECT_OK(Unlock(other_, theirs_, 0, 4));
  EXPECT_EQ(UndoFiles(), 0u);
}

TEST_F(AutoRecoveryTest, ANewInstanceBreaksAPersistentOneAndUndoesIt) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kBoth));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  Restart();
  const Caller again = Client("node1", 7, 2);
  store_->persistent_locks().Arrived("node1", again.client_verifier);
  store_->rollbacks().AwaitIdle();
  EXPECT_EQ(Content(), kBefore);
  EXPECT_EQ(States(), std::vector{State::kBroken});
}

// Shows DAFS-4.4.1.6-03, DAFS-4.4.1.6-04.
TEST_F(AutoRecoveryTest, AReclaimedLockKeepsItsChanges) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd", wire::StableHow::kFileSync));
  Restart();
  EXPECT_EQ(States(), std::vector{State::kBreakable});
  EXPECT_DAFS(kLocked, Write(other_, theirs_, 0, "x"));
  EXPECT_OK(LockOnce(user_, mine_, 0, 4, wire::kLockReclaim));
  EXPECT_EQ(Content(), "abcd456789");
  EXPECT_OK(Write(user_, mine_, 1, "B"));
  EXPECT_OK(Abort(user_, mine_, 0, 4));  // also of what the earlier instance saved
  EXPECT_EQ(Content(), kBefore);
}

TEST_F(AutoRecoveryTest, AConflictingLockWaitsForTheUndoOfAnUnclaimedOne) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  Restart();
  Restart();
  EXPECT_EQ(Content(), "abcd456789");
  EXPECT_OK(Lock(other_, theirs_, 2, 1, 0));
  EXPECT_EQ(Content(), kBefore);
  EXPECT_DAFS(kExpired, LockOnce(user_, mine_, 0, 4, wire::kLockReclaim | kAuto));
  EXPECT_TRUE(States().empty());
}

TEST_F(AutoRecoveryTest, TheEndOfTheGracePeriodUndoesWhatIsNotReclaimed) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  Restart();
  store_->persistent_locks().EndClaims([](const ObjectKey&) { return true; });
  store_->rollbacks().AwaitIdle();
  EXPECT_EQ(Content(), kBefore);
  EXPECT_TRUE(States().empty());
  Restart();
  EXPECT_TRUE(States().empty());
  EXPECT_EQ(UndoFiles(), 0u);
}

TEST_F(AutoRecoveryTest, ALockForReadingMakesChangesFinal) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  ASSERT_OK(Lock(user_, mine_, 0, 2, 0, LockType::kRead));
  EXPECT_OK(LockOnce(other_, theirs_, 0, 2, 0, LockType::kRead));
  Expire(user_);
  EXPECT_EQ(Content(), "ab23456789");
}

// Shows DAFS-4.4.1.4-09, DAFS-4.4.1.4-11.
TEST_F(AutoRecoveryTest, UnsupportedRequestsAreRefused) {
  EXPECT_DAFS(kNotSupp, LockOnce(user_, mine_, 0, 4, kAuto, LockType::kRead));
  EXPECT_DAFS(kInval, LockOnce(user_, mine_, 0, 4, kAuto | wire::kLockRepair));
  ASSERT_OK(Lock(user_, mine_, 4096, 4096, kAuto));
  EXPECT_DAFS(kNotSupp, Allocate(user_, mine_, wire::AllocateMode::kInsertRange, 0, 4096));
  EXPECT_DAFS(kNotSupp, Allocate(user_, mine_, wire::AllocateMode::kCollapseRange, 0, 4096));
  StoreOptions without = Options();
  without.undo_space_bytes = 0;
  Restart(without);
  EXPECT_DAFS(kNotSupp, LockOnce(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(LockOnce(user_, mine_, 0, 4, wire::kLockPersist));
}

TEST_F(AutoRecoveryTest, OldBytesBeyondTheLimitAreRefusedAndNothingChanges) {
  StoreOptions small = Options();
  small.undo_space_bytes = 65536;
  Restart(small);
  ASSERT_OK(Write(user_, mine_, 0, std::string(200000, 'o')));
  ASSERT_OK(Lock(user_, mine_, 0, wire::kLockToEnd, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "first"));
  EXPECT_EQ(store_->undo_log().used_bytes(), 65536u);
  EXPECT_OK(Write(user_, mine_, 100, "saved already"));
  EXPECT_DAFS(kNoSpc, Write(user_, mine_, 70000, "second"));
  EXPECT_DAFS(kNoSpc, Resize(user_, mine_, 10));
  EXPECT_OK(Append(user_, mine_, "grown"));  // needs no space
  Expire(user_);
  EXPECT_EQ(Content(), std::string(200000, 'o'));
  EXPECT_EQ(store_->undo_log().used_bytes(), 0u);
  OpenAgain();
  ASSERT_OK(Lock(user_, mine_, 0, wire::kLockToEnd, kAuto));
  EXPECT_OK(Write(user_, mine_, 70000, "second"));
}

TEST_F(AutoRecoveryTest, ADatabaseThatCannotBeWrittenRejectsTheChange) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  Store::RestoreServerIdentity();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(Path("state/locks.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "ALTER TABLE undo RENAME TO gone", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_DAFS(kServerFault, Write(user_, mine_, 0, "abcd"));
  EXPECT_EQ(Content(), kBefore);
  ASSERT_EQ(sqlite3_exec(other, "ALTER TABLE gone RENAME TO undo", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(other);
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  Expire(user_);
  EXPECT_EQ(Content(), kBefore);
}

TEST_F(AutoRecoveryTest, ALockThatCannotBeRecordedChangesNoOtherLock) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, 0, LockType::kRead));
  ASSERT_OK(Lock(user_, mine_, 4, 4, 0));
  ASSERT_OK(Lock(user_, mine_, 20, 1, wire::kLockPersist));  // makes the database
  Store::RestoreServerIdentity();
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(Path("state/locks.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "ALTER TABLE plock RENAME TO gone", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_DAFS(kServerFault, Lock(user_, mine_, 0, 10, wire::kLockPersist));
  ASSERT_EQ(sqlite3_exec(other, "ALTER TABLE gone RENAME TO plock", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(other);
  EXPECT_OK(Lock(other_, theirs_, 0, 4, 0, LockType::kRead));
  EXPECT_DAFS(kDenied, Lock(other_, theirs_, 0, 1, 0));
  EXPECT_DAFS(kDenied, Lock(other_, theirs_, 4, 4, 0, LockType::kRead));
  EXPECT_OK(Lock(other_, theirs_, 8, 2, 0));
  // The same against programs on the server.
  const UniqueFd local(open(Path("a/f").c_str(), O_RDWR));
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_start = 4;
  range.l_len = 4;
  EXPECT_NE(fcntl(local.get(), F_OFD_SETLK, &range), 0);
  range.l_type = F_RDLCK;
  range.l_start = 0;
  EXPECT_EQ(fcntl(local.get(), F_OFD_SETLK, &range), 0);
}

TEST_F(AutoRecoveryTest, AFailedSaveRejectsTheChangeAndLeavesNoFile) {
  const std::string large(size_t{3} << 20, 'o');
  constexpr size_t kPart = 1 << 20;
  for (size_t at = 0; at < large.size(); at += kPart) {
    ASSERT_OK(Write(user_, mine_, at, large.substr(at, kPart)));
  }
  ASSERT_OK(Lock(user_, mine_, 0, wire::kLockToEnd, kAuto));
  // No file can grow beyond 1 MiB, as on a full disk.
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {size_t{1} << 20, before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int i = 0; i < 3; ++i) EXPECT_DAFS(kFbig, Write(user_, mine_, 2 << 20, "x"));
  EXPECT_EQ(UndoFiles(), 0u);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(Content(), large);
  EXPECT_EQ(store_->undo_log().used_bytes(), 0u);
  EXPECT_OK(Write(user_, mine_, 2 << 20, "x"));
  EXPECT_EQ(UndoFiles(), 1u);
}

TEST_F(AutoRecoveryTest, ADatabaseOfVersion2KeepsItsLocks) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, wire::kLockPersist));
  store_.reset();
  Store::RestoreServerIdentity();
  sqlite3* old = nullptr;
  ASSERT_EQ(sqlite3_open(Path("state/locks.db").c_str(), &old), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(old,
                         "ALTER TABLE plock DROP COLUMN kind; DROP TABLE undo;"
                         "DROP TABLE undo_lock; PRAGMA user_version=2",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(old);
  sqlite3_close(old);
  Restart();
  EXPECT_EQ(States(), std::vector{State::kBreakable});
  ASSERT_OK(Lock(user_, mine_, 4, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 4, "ab"));
  EXPECT_OK(Abort(user_, mine_, 4, 4));
  EXPECT_EQ(Content(), kBefore);
}

TEST_F(AutoRecoveryTest, ClientsDoNotSeeUndoFilesAndTheNextInstanceRemovesStrayOnes) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  EXPECT_EQ(Names(root_, A()), std::vector<std::string>{"f"});
  EXPECT_DAFS(kNoEnt, Lookup(root_, A(), ".dafsd-orphans"));
  Store::RestoreServerIdentity();
  std::string name;
  for (const auto& entry : std::filesystem::directory_iterator(Path("a/.dafsd-orphans"))) {
    name = entry.path().string();
  }
  ASSERT_NE(name.find("/.undo-"), std::string::npos) << name;
  WriteFile(name.substr(0, name.rfind('-')) + "-77", "of a save that was interrupted");
  WriteFile(Path("a/.dafsd-orphans/.undo-0123456789abcdef-1"), "of another server");
  EXPECT_EQ(UndoFiles(), 3u);
  Restart();
  EXPECT_EQ(UndoFiles(), 2u);
  ASSERT_OK(Lock(other_, theirs_, 0, 4, 0));
  EXPECT_EQ(Content(), kBefore);
  EXPECT_EQ(UndoFiles(), 1u);
}

TEST_F(AutoRecoveryTest, TheUndoFilesOfARemovedFileGo) {
  ASSERT_OK(Lock(user_, mine_, 0, 4, kAuto));
  EXPECT_OK(Write(user_, mine_, 0, "abcd"));
  Restart();  // no client has it open then
  ASSERT_OK(Close(user_, mine_));
  ASSERT_OK(Close(other_, theirs_));
  ASSERT_EQ(unlink(Path("a/f").c_str()), 0);
  for (int i = 0; i < Store::kForgetCalls; ++i) store_->ForgetRemoved();
  EXPECT_TRUE(States().empty());
  EXPECT_EQ(UndoFiles(), 0u);
}

// A program's view of one file under random locks, changes, failures and restarts, against a model:
// the present bytes, and the bytes after an undo.
TEST_F(AutoRecoveryTest, RandomStepsAgreeWithAModel) {
  constexpr size_t kSize = 512;
  constexpr size_t kBlocks = 4;  // each locked by itself
  constexpr size_t kBlock = kSize / kBlocks;
  std::mt19937 random(38);
  const auto below = [&](size_t most) { return random() % most; };
  std::string now(kSize, 'o');
  std::string before = now;
  bool locked[kBlocks] = {};
  ASSERT_OK(Write(user_, mine_, 0, now));
  const auto undo_all = [&] {
    now = before;
    std::fill(std::begin(locked), std::end(locked), false);
  };
  for (int step = 0; step < 10000; ++step) {
    SCOPED_TRACE(step);
    const size_t block = below(kBlocks), start = block * kBlock;
    const size_t kind = below(200);
    if (kind < 120) {
      const size_t offset = below(kSize);
      const std::string data(1 + below(std::min<size_t>(100, kSize - offset)),
                             static_cast<char>('a' + below(26)));
      ASSERT_OK(Write(user_, mine_, offset, data));
      now.replace(offset, data.size(), data);
      for (size_t i = offset; i < offset + data.size(); ++i) {
        if (!locked[i / kBlock]) before[i] = now[i];
      }
    } else if (kind < 150) {
      ASSERT_OK(Lock(user_, mine_, start, kBlock, kAuto));
      locked[block] = true;
    } else if (kind < 180) {
      ASSERT_OK(Unlock(user_, mine_, start, kBlock));
      locked[block] = false;
      before.replace(start, kBlock, now, start, kBlock);
    } else if (kind < 197) {
      ASSERT_OK(Abort(user_, mine_, start, kBlock));
      if (locked[block]) now.replace(start, kBlock, before, start, kBlock);
    } else if (kind < 199) {
      Expire(user_);
      OpenAgain();
      undo_all();
    } else {
      Restart();
      if (below(2) != 0) {
        store_->persistent_locks().EndClaims([](const ObjectKey&) { return true; });
        store_->rollbacks().AwaitIdle();
        undo_all();
      } else {
        for (size_t i = 0; i < kBlocks; ++i) {
          if (!locked[i]) continue;
          ASSERT_OK(LockOnce(user_, mine_, i * kBlock, kBlock, kAuto | wire::kLockReclaim));
        }
      }
    }
    if (step % 8 == 0) {
      ASSERT_EQ(Read(user_, mine_), now);
    }
  }
  Expire(user_);
  EXPECT_EQ(Content(), before);
}

}  // namespace
}  // namespace dafs::server
