// LOCK, LOCKT and LOCKU in the store: owners, ranges, locks in the kernel, and the end of locks.
#include <sys/file.h>

#include "runtime/files/unique_fd.h"
#include "server/store/access/locks/lock_notices.h"
#include "server/store/holdings/locks/lock_table.h"
#include "server/store/system/identity.h"
#include "tests/server/store/store_fixture.h"
#include "wire/messages/promises.h"
#include "wire/protocol/process_owner.h"

namespace dafs::server {
namespace {

using wire::LockType;

class StoreLocksTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    Start();
    WriteFile(Path("a/f"), "content", 0666);
  }
  Opened OpenAs(const Caller& caller, const std::string& owner,
                uint32_t access = wire::kShareBoth) {
    wire::OpenArgs args = OpenArgs(A(), "f", access);
    args.owner = owner;
    return MustOpen(caller, args);
  }
  DafsStatus Lock(const Caller& caller, const Opened& opened, LockType type, uint64_t offset,
                  uint64_t length, wire::LockRes* res = nullptr, uint32_t options = 0) {
    wire::LockArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.lock_type = type;
    args.offset = offset;
    args.length = length;
    args.options = options;
    wire::LockRes unused;
    return store_->locks().Lock(caller, args, res != nullptr ? res : &unused);
  }
  DafsStatus Unlock(const Caller& caller, const Opened& opened, uint64_t offset, uint64_t length) {
    wire::LockuArgs args;
    args.filehandle = opened.filehandle;
    args.state_id = opened.state_id;
    args.offset = offset;
    args.length = length;
    return store_->locks().Locku(caller, args);
  }
  DafsStatus Test(const Caller& caller, const Opened& opened, const std::string& owner,
                  LockType type, uint64_t offset, uint64_t length, wire::LocktRes* res = nullptr) {
    wire::LocktArgs args;
    args.filehandle = opened.filehandle;
    args.owner = owner;
    args.lock_type = type;
    args.offset = offset;
    args.length = length;
    wire::LocktRes unused;
    return store_->locks().Lockt(caller, args, res != nullptr ? res : &unused);
  }

  // A program on the server, with an open file description of its own.
  class Program {
   public:
    explicit Program(const std::string& path) {
      Store::RestoreServerIdentity();
      fd_ = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
      EXPECT_TRUE(fd_.valid());
    }
    bool Lock(short type, off_t start, off_t length) {
      struct flock lock = Words(type, start, length);
      return fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0;
    }
    // Returns the lock that conflicts with a write lock, as "R 10 5" or "W 10 0"; "" if there is
    // none.
    std::string InTheWay(off_t start, off_t length) {
      struct flock lock = Words(F_WRLCK, start, length);
      EXPECT_EQ(fcntl(fd_.get(), F_OFD_GETLK, &lock), 0);
      if (lock.l_type == F_UNLCK) return "";
      return std::string(lock.l_type == F_WRLCK ? "W " : "R ") + std::to_string(lock.l_start) +
             " " + std::to_string(lock.l_len);
    }
    bool Flock(int how) { return flock(fd_.get(), how | LOCK_NB) == 0; }

   private:
    static struct flock Words(short type, off_t start, off_t length) {
      struct flock lock = {};
      lock.l_type = type;
      lock.l_whence = SEEK_SET;
      lock.l_start = start;
      lock.l_len = length;
      return lock;
    }
    UniqueFd fd_;
  };
};

// Shows DAFS-4.4.1.1-02, DAFS-6.5.18-04, DAFS-6.5.18-08, DAFS-6.5.19-01, DAFS-6.5.20-01
TEST_F(StoreLocksTest, ClientsSeeLocksOfOtherClients) {
  const Opened mine = OpenAs(user_, "me"), yours = OpenAs(other_, "you");
  ASSERT_OK(Lock(user_, mine, LockType::kWrite, 1000, 10));  // beyond the end of the file
  wire::LockRes res;
  EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kRead, 1005, 1, &res));
  EXPECT_EQ(res.owner_clientid, user_.client_id);
  EXPECT_EQ(res.owner, "me");
  EXPECT_EQ(res.offset, 1000u);
  EXPECT_EQ(res.length, 10u);
  EXPECT_EQ(res.lock_type, LockType::kWrite);
  wire::LocktRes test;
  EXPECT_DAFS(kDenied, Test(other_, yours, "you", LockType::kRead, 0, wire::kLockToEnd, &test));
  EXPECT_EQ(test.owner, "me");
  EXPECT_OK(Test(other_, yours, "you", LockType::kWrite, 0, 1000));
  EXPECT_OK(Test(user_, mine, "me", LockType::kWrite, 0, wire::kLockToEnd));
  ASSERT_OK(Unlock(user_, mine, 1004, 2));
  EXPECT_OK(Lock(other_, yours, LockType::kRead, 1005, 1));
  EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kRead, 1006, 1));
  EXPECT_EQ(store_->inventory().lock_count(), 3u);
}

// Shows DAFS-6.5.18-03, DAFS-4.4.1.4-11, DAFS-6.5.19-02
TEST_F(StoreLocksTest, InvalidLockIsRefused) {
  const Opened file = OpenAs(user_, "me"), reader = OpenAs(user_, "reader", wire::kShareRead);
  EXPECT_DAFS(kNotSupp, Lock(user_, file, LockType::kRead, 0, 1, nullptr, wire::kLockAutorecovery));
  EXPECT_DAFS(kAcces, Lock(user_, reader, LockType::kWrite, 0, 1));
  EXPECT_DAFS(kBadStateId, Lock(other_, file, LockType::kRead, 0, 1));
  Opened bad = file;
  bad.filehandle.fileid.bytes[3] ^= 1;
  EXPECT_DAFS(kBadHandle, Lock(user_, bad, LockType::kRead, 0, 1));
  EXPECT_DAFS(kBadHandle, Unlock(user_, bad, 0, 1));
  EXPECT_DAFS(kBadHandle, Test(user_, bad, "me", LockType::kRead, 0, 1));
  EXPECT_DAFS(kIsDir, Test(user_, {A(), {}}, "me", LockType::kRead, 0, 1));
  EXPECT_DAFS(kBadStateId, Lock(user_, {A(), file.state_id}, LockType::kRead, 0, 1));
  // LOCKT works without an open of the file.
  EXPECT_OK(Close(user_, file));
  EXPECT_OK(Close(user_, reader));
  EXPECT_OK(Test(user_, file, "anybody", LockType::kWrite, 0, 1));
}

// Shows DAFS-6.5.18-02: RECLAIM is 1; here there is nothing to reclaim. PERSIST is 2
// (persistent_locks_test.cc). AUTORECOVERY is 4, for writing only (auto_recovery_test.cc).
TEST_F(StoreLocksTest, LockOptionsAreBits) {
  const Opened file = OpenAs(user_, "me");
  for (const uint32_t options : {1u, 1u | 4u, 1u | 2u | 4u}) {
    EXPECT_DAFS(kExpired, Lock(user_, file, LockType::kRead, 0, 1, nullptr, options));
  }
  for (const uint32_t options : {4u, 2u | 4u}) {
    EXPECT_DAFS(kNotSupp, Lock(user_, file, LockType::kRead, 0, 1, nullptr, options));
  }
  EXPECT_EQ(store_->inventory().lock_count(), 0u);
  EXPECT_EQ(wire::kLockReclaim, 1u);
  EXPECT_EQ(wire::kLockPersist, 2u);
  EXPECT_EQ(wire::kLockAutorecovery, 4u);
}

TEST_F(StoreLocksTest, ProgramsOnServerSeeLocksOfClients) {
  const Opened mine = OpenAs(user_, "me"), yours = OpenAs(other_, "you");
  Program program(Path("a/f"));
  ASSERT_OK(Lock(user_, mine, LockType::kRead, 10, 10));
  EXPECT_EQ(program.InTheWay(0, 0), "R 10 10");
  ASSERT_OK(Lock(user_, mine, LockType::kWrite, 12, 2));
  EXPECT_EQ(program.InTheWay(12, 1), "W 12 2");
  EXPECT_EQ(program.InTheWay(19, 1), "R 14 6");
  ASSERT_OK(Lock(other_, yours, LockType::kWrite, 100, wire::kLockToEnd));
  EXPECT_EQ(program.InTheWay(1 << 20, 1), "W 100 0");
  ASSERT_OK(Unlock(user_, mine, 0, wire::kLockToEnd));
  EXPECT_EQ(program.InTheWay(0, 100), "");
  EXPECT_FALSE(program.Lock(F_RDLCK, 0, 0));
  EXPECT_OK(Unlock(other_, yours, 0, wire::kLockToEnd));
  // The kernel cannot lock this byte: the lock applies only to DAFS clients.
  ASSERT_OK(Lock(user_, mine, LockType::kWrite, uint64_t{1} << 63, 1));
  EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kRead, uint64_t{1} << 63, 1));
  EXPECT_TRUE(program.Lock(F_WRLCK, 0, 0));
}

TEST_F(StoreLocksTest, ClientsSeeLocksOfProgramsOnServer) {
  const Opened mine = OpenAs(user_, "me");
  Program program(Path("a/f"));
  ASSERT_TRUE(program.Lock(F_RDLCK, 10, 10));
  EXPECT_OK(Lock(user_, mine, LockType::kRead, 0, wire::kLockToEnd));
  wire::LockRes res;
  EXPECT_DAFS(kDenied, Lock(user_, mine, LockType::kWriteBlocking, 5, 10, &res));
  EXPECT_TRUE(res.owner_clientid.is_zero());
  EXPECT_EQ(res.owner, "");
  EXPECT_EQ(res.offset, 10u);
  EXPECT_EQ(res.length, 10u);
  EXPECT_EQ(res.lock_type, LockType::kRead);
  wire::LocktRes test;
  EXPECT_DAFS(kDenied, Test(user_, mine, "me", LockType::kWrite, 0, 11, &test));
  EXPECT_EQ(test.offset, 10u);
  EXPECT_DAFS(kDenied, Test(other_, mine, "other", LockType::kWrite, 0, 1, &test));
  EXPECT_EQ(test.owner, "me");
  ASSERT_TRUE(program.Lock(F_UNLCK, 0, 0));
  EXPECT_OK(Lock(user_, mine, LockType::kWriteBlocking, 5, 10));
}

// Shows DAFS-6.5.18-09: the kernel does not report which flock(2) of a program conflicts.
TEST_F(StoreLocksTest, ConflictOfUnknownRangeHasRequestedRange) {
  const Opened mine = OpenAs(user_, "me");
  Program program(Path("a/f"));
  for (const int held : {LOCK_SH, LOCK_EX}) {
    ASSERT_TRUE(program.Flock(held));
    for (const LockType type : {LockType::kWrite, LockType::kWriteBlocking}) {
      wire::LockRes res;
      EXPECT_DAFS(kDenied, Lock(user_, mine, type, wire::kFlockByte, 1, &res));
      EXPECT_EQ(res.offset, wire::kFlockByte);
      EXPECT_EQ(res.length, 1u);
      EXPECT_EQ(res.owner, "");
    }
  }
}

TEST_F(StoreLocksTest, FlockIsIndependentOfByteRanges) {
  const Opened mine = OpenAs(user_, "me", wire::kShareRead), yours = OpenAs(other_, "you");
  Program program(Path("a/f"));
  ASSERT_OK(Lock(other_, yours, LockType::kWrite, 0, wire::kLockToEnd));
  ASSERT_OK(Lock(user_, mine, LockType::kWrite, wire::kFlockByte, 1));
  EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kRead, wire::kFlockByte, 1));
  EXPECT_FALSE(program.Flock(LOCK_SH));
  ASSERT_OK(Lock(user_, mine, LockType::kRead, wire::kFlockByte, 1));
  EXPECT_TRUE(program.Flock(LOCK_SH));
  EXPECT_OK(Lock(other_, yours, LockType::kRead, wire::kFlockByte, 1));
  // As flock(2): a conversion releases the old lock before it requests the new one.
  EXPECT_DAFS(kDenied, Lock(user_, mine, LockType::kWriteBlocking, wire::kFlockByte, 1));
  ASSERT_TRUE(program.Flock(LOCK_UN));
  // Two conversions do not wait for each other: the first request is served first.
  EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kWriteBlocking, wire::kFlockByte, 1));
  EXPECT_OK(Lock(user_, mine, LockType::kWriteBlocking, wire::kFlockByte, 1));
  EXPECT_OK(Unlock(user_, mine, wire::kFlockByte, 1));
  EXPECT_OK(Lock(other_, yours, LockType::kWriteBlocking, wire::kFlockByte, 1));
  EXPECT_FALSE(program.Flock(LOCK_SH));
  EXPECT_OK(Unlock(other_, yours, wire::kFlockByte, 1));
  EXPECT_OK(Lock(user_, mine, LockType::kRead, wire::kFlockByte, 1));
  EXPECT_OK(Close(user_, mine));
  EXPECT_TRUE(program.Flock(LOCK_EX));
  EXPECT_EQ(program.InTheWay(0, 0), "W 0 0");
}

// Shows DAFS-4.4.1.2-46, DAFS-4.4.1.2-47, DAFS-4.4.1.5-06
TEST_F(StoreLocksTest, LocksEndWithTheirOpenOrClient) {
  const Opened mine = OpenAs(user_, "me"), also = OpenAs(user_, "also");
  const Opened yours = OpenAs(other_, "you");
  Program program(Path("a/f"));
  ASSERT_OK(Lock(user_, mine, LockType::kWrite, 0, 10));
  ASSERT_OK(Lock(user_, also, LockType::kWrite, 10, 10));
  EXPECT_OK(Close(user_, mine));
  EXPECT_EQ(program.InTheWay(0, 0), "W 10 10");
  EXPECT_OK(Lock(other_, yours, LockType::kWrite, 0, 10));
  EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kWriteBlocking, 10, 10));
  store_->releases().ReleaseClient(user_.client_id);
  EXPECT_EQ(store_->inventory().open_count(), 1u);
  EXPECT_OK(Lock(other_, yours, LockType::kWriteBlocking, 10, 10));
  EXPECT_EQ(store_->inventory().lock_count(), 1u);
  store_->releases().ReleaseClient(other_.client_id);
  EXPECT_EQ(program.InTheWay(0, 0), "");
  EXPECT_EQ(store_->inventory().lock_count(), 0u);
}

// Shows DAFS-4.4.1.2-16, DAFS-4.4.1.2-17
TEST_F(StoreLocksTest, WaitersAreDeniedAtOnceAndServedInOrder) {
  const Opened first = OpenAs(user_, "first"), second = OpenAs(user_, "second");
  const Opened third = OpenAs(other_, "third");
  ASSERT_OK(Lock(user_, first, LockType::kWriteBlocking, 0, 1));
  EXPECT_DAFS(kDenied, Lock(user_, second, LockType::kWriteBlocking, 0, 1));
  EXPECT_DAFS(kDenied, Lock(other_, third, LockType::kWriteBlocking, 0, 1));
  ASSERT_OK(Unlock(user_, first, 0, 1));
  EXPECT_DAFS(kDenied, Lock(other_, third, LockType::kWriteBlocking, 0, 1));
  EXPECT_DAFS(kDenied, Lock(user_, first, LockType::kRead, 0, 1));
  EXPECT_OK(Lock(user_, second, LockType::kAbort, 0, 1));
  EXPECT_OK(Lock(other_, third, LockType::kWriteBlocking, 0, 1));
  EXPECT_OK(Close(user_, second));
}

// Every end of a lock notifies the waiter: LOCKU, a lock for reading in its place, CLOSE, and the
// end of a client. Local programs cannot be watched.
TEST_F(StoreLocksTest, WaiterHearsThatItsLockIsFree) {
  std::vector<wire::BcLockFreeArgs> reported;
  bool reachable = true;
  store_->lock_notices().SetSend(
      [&](const wire::ClientId& client, const wire::BcLockFreeArgs& args) {
        EXPECT_EQ(client, other_.client_id);
        if (reachable) reported.push_back(args);
        return reachable;
      });
  const Opened yours = OpenAs(other_, "you");
  const auto is_told = [&](auto&& release) {
    const Opened mine = OpenAs(user_, "me");
    EXPECT_OK(Lock(user_, mine, LockType::kWrite, 0, 10));
    EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kReadBlocking, 5, wire::kLockToEnd, nullptr,
                              wire::kLockAwaits));
    EXPECT_TRUE(reported.empty());
    release(mine);
    const bool is = reported.size() == 1 && reported[0].filehandle == yours.filehandle &&
                    reported[0].offset == 5 && reported[0].length == wire::kLockToEnd;
    reported.clear();
    EXPECT_OK(Lock(other_, yours, LockType::kReadBlocking, 5, wire::kLockToEnd));
    EXPECT_OK(Unlock(other_, yours, 0, wire::kLockToEnd));
    store_->releases().ReleaseClient(user_.client_id);
    return is;
  };
  EXPECT_TRUE(is_told([&](const Opened& mine) { EXPECT_OK(Unlock(user_, mine, 5, 5)); }));
  EXPECT_TRUE(
      is_told([&](const Opened& mine) { EXPECT_OK(Lock(user_, mine, LockType::kRead, 0, 10)); }));
  EXPECT_TRUE(is_told([&](const Opened& mine) { EXPECT_OK(Close(user_, mine)); }));
  EXPECT_TRUE(is_told([&](const Opened&) { store_->releases().ExpireClient(user_.client_id); }));
  EXPECT_FALSE(is_told([&](const Opened& mine) {
    store_->lock_notices().DropAwaiting(other_.client_id);
    EXPECT_OK(Unlock(user_, mine, 0, 10));
  }));
  reachable = false;
  EXPECT_FALSE(is_told([&](const Opened& mine) { EXPECT_OK(Unlock(user_, mine, 0, 10)); }));
}

TEST_F(StoreLocksTest, ProcessThatWouldWaitForItselfIsRefused) {
  const Opened f = OpenAs(user_, wire::ProcessOwner(1, 1));
  const Opened other_f = OpenAs(other_, wire::ProcessOwner(1, 1));
  const auto wait = [&](const Caller& caller, const Opened& opened, uint64_t offset) {
    return Lock(caller, opened, LockType::kWriteBlocking, offset, 1, nullptr,
                wire::kLockAwaits | wire::kLockOfProcess);
  };
  ASSERT_OK(wait(user_, f, 0));
  ASSERT_OK(wait(other_, other_f, 1));
  EXPECT_DAFS(kDenied, wait(user_, f, 1));
  EXPECT_DAFS(kDeadlock, wait(other_, other_f, 0));
  // Without the option the same request waits.
  EXPECT_DAFS(kDenied, Lock(other_, other_f, LockType::kWriteBlocking, 0, 1));
}

// The second owner receives an open although the file's mode no longer permits it.
TEST_F(StoreLocksTest, OpenIsSharedWithAnotherOwner) {
  const Opened mine = OpenAs(user_, "me");
  RestoreOwnIdentity();
  ASSERT_EQ(chmod(Path("a/f").c_str(), 0), 0);
  wire::OpenOwnerArgs args;
  args.filehandle = mine.filehandle;
  args.state_id = mine.state_id;
  args.owner = "process";
  wire::OpenOwnerRes res;
  ASSERT_OK(store_->locks().OpenOwner(user_, args, &res));
  EXPECT_NE(res.state_id, mine.state_id);
  const wire::StateId first = res.state_id;
  ASSERT_OK(store_->locks().OpenOwner(user_, args, &res));
  EXPECT_EQ(res.state_id, first);  // one owner, one open
  const Opened process{mine.filehandle, first};
  EXPECT_OK(Lock(user_, process, LockType::kWrite, 0, 1));
  EXPECT_DAFS(kDenied, Lock(user_, mine, LockType::kRead, 0, 1));
  EXPECT_DAFS(kBadStateId,
              store_->locks().OpenOwner(other_, args, &res));  // the open of another client
  EXPECT_OK(Close(user_, process));
  EXPECT_OK(Lock(user_, mine, LockType::kRead, 0, 1));
  args.filehandle.fileid.bytes[3] ^= 1;
  EXPECT_DAFS(kBadHandle, store_->locks().OpenOwner(user_, args, &res));
}

TEST_F(StoreLocksTest, UnnamedFileCanBeLocked) {
  const Opened mine = OpenAs(user_, "me"), yours = OpenAs(other_, "you");
  ASSERT_OK(Remove(root_, A(), "f"));
  EXPECT_OK(Lock(user_, mine, LockType::kWrite, 0, 1));
  EXPECT_DAFS(kDenied, Lock(other_, yours, LockType::kRead, 0, 1));
  EXPECT_DAFS(kDenied, Test(other_, yours, "you", LockType::kRead, 0, 1));
}

}  // namespace
}  // namespace dafs::server
