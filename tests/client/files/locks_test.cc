// Locks of the client at the real server.
#include <fcntl.h>
#include <sys/file.h>

#include "client/files/opens/lock_wait.h"
#include "tests/client/server_fixture.h"

namespace dafs::client {
namespace {

class FilesLocksTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (IsSkipped()) return;
    MakeLocal("f", "content");
    StartClient(Options());
  }
  LockOwner Open(const std::string& owner, uint64_t process = 0,
                 uint32_t access = wire::kShareBoth) {
    OpenRequest request;
    request.directory = root_.handle;
    request.name = "f";
    request.owner = owner;
    request.share_access = access;
    absl::StatusOr<OpenFile> file = Await(files_->opens().Open(root_user_, request));
    EXPECT_STATUS_OK(file);
    return {file->handle, file->state_id, process};
  }
  LockOutcome Lock(const LockOwner& owner, const wire::LockRange& range) {
    absl::StatusOr<LockAnswer> answer = Await(files_->locks().Lock(root_user_, owner, range));
    EXPECT_STATUS_OK(answer);
    if (answer.ok() && answer->outcome == LockOutcome::kGranted) {
      EXPECT_TRUE(answer->attributes.has(wire::kFattrChange));
    }
    return answer.ok() ? answer->outcome : LockOutcome::kDenied;
  }
  void Unlock(const LockOwner& owner) {
    EXPECT_STATUS_OK(Await(files_->locks().Unlock(root_user_, owner, 0, wire::kFlockByte - 1)));
  }
  uint32_t SlotsTaken() {
    const WorkerReport report = files_->Report();
    return report.session.slots_taken;
  }

  // A wait for a lock, in the background.
  struct Waiting {
    Waiting(FilesLocksTest& test, const LockOwner& owner, const wire::LockRange& range)
        : wait(*test.loop_, [process = owner.process] { return process; }) {
      Start(Run(test, this, owner, range));
    }
    static Task<void> Run(FilesLocksTest& test, Waiting* self, LockOwner owner,
                          wire::LockRange range) {
      Task<absl::StatusOr<LockAnswer>> task =
          test.files_->locks().Lock(test.root_user_, owner, range, &self->wait);
      self->answer = co_await task;
      self->done = true;
    }
    LockWait wait;
    absl::StatusOr<LockAnswer> answer = absl::UnknownError("waits");
    bool done = false;
  };
  // Waits for a lock in the background; the wait is destroyed as soon as the call fails.
  Task<void> WaitAndGo(LockOwner owner, wire::LockRange range, int* gone) {
    auto wait = std::make_unique<LockWait>(*loop_, [] { return 0; });
    Task<absl::StatusOr<LockAnswer>> task =
        files_->locks().Lock(root_user_, owner, range, wait.get());
    absl::StatusOr<LockAnswer> answer = co_await task;
    EXPECT_FALSE(answer.ok());
    wait.reset();
    ++*gone;
  }
  void RunUntil(const bool& done) {
    while (!done) loop_->RunOnce(absl::Seconds(1));
  }
  // Runs the loop for the time of a few LOCK requests.
  void RunAWhile() { RunUntilDone(*loop_, loop_->Sleep(absl::Milliseconds(40))); }

  const wire::LockRange all_{0, wire::kFlockByte - 1, true};
};

TEST_F(FilesLocksTest, LocksAreGrantedReportedAndReleased) {
  const LockOwner a = Open("a"), b = Open("b");
  EXPECT_EQ(Lock(a, {10, 19, true}), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, {0, 10, false}), LockOutcome::kDenied);
  auto found = Await(files_->locks().TestLock(root_user_, a.file, "b", all_));
  ASSERT_STATUS_OK(found);
  ASSERT_TRUE(found->has_value());
  EXPECT_TRUE((*found)->ours);
  EXPECT_EQ((*found)->owner, "a");
  EXPECT_EQ((*found)->range, (wire::LockRange{10, 19, true}));
  found = Await(files_->locks().TestLock(root_user_, a.file, "a", all_));
  ASSERT_STATUS_OK(found);
  EXPECT_FALSE(found->has_value());
  EXPECT_EQ(Lock(a, wire::FlockRange(true)), LockOutcome::kGranted);
  EXPECT_EQ(client_->locks().count(), 2u);
  EXPECT_STATUS_OK(Await(files_->opens().Close(a.state_id)));
  EXPECT_EQ(client_->locks().count(), 0u);
  EXPECT_EQ(Lock(b, all_), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, wire::FlockRange(true)), LockOutcome::kGranted);
  const LockOwner reader = Open("reader", 0, wire::kShareRead);
  Unlock(b);
  absl::StatusOr<LockAnswer> refused = Await(files_->locks().Lock(root_user_, reader, all_));
  EXPECT_EQ(wire::DafsFromStatus(refused.status()), wire::DafsStatus::kAcces);
}

// Shows DAFS-4.4.1.2-16 (the client polls), DAFS-7-07
TEST_F(FilesLocksTest, WaitHoldsNoSlotAndEndsWhenTheLockIsFree) {
  const LockOwner a = Open("a"), b = Open("b");
  EXPECT_EQ(Lock(a, all_), LockOutcome::kGranted);
  Waiting waiting(*this, b, {5, 5, false});
  RunAWhile();
  // A LOCK request may be outstanding now. Between two of them the wait takes no slot.
  const absl::Time give_up = Loop::Now() + absl::Seconds(10);
  while (SlotsTaken() != 0 && Loop::Now() < give_up) loop_->RunOnce(absl::Milliseconds(10));
  EXPECT_EQ(SlotsTaken(), 0u);
  EXPECT_FALSE(waiting.done);
  Unlock(a);
  RunUntil(waiting.done);
  ASSERT_STATUS_OK(waiting.answer);
  EXPECT_EQ(waiting.answer->outcome, LockOutcome::kGranted);
  EXPECT_EQ(Lock(a, all_), LockOutcome::kDenied);
}

// ASan detects uses of a destroyed wait.
TEST_F(FilesLocksTest, WaitsMayBeDestroyedWhenShutdownEndsThem) {
  const LockOwner a = Open("a"), b = Open("b"), c = Open("c");
  EXPECT_EQ(Lock(a, all_), LockOutcome::kGranted);
  int gone = 0;
  for (const LockOwner& owner : {b, c}) Start(WaitAndGo(owner, all_, &gone));
  RunAWhile();
  EXPECT_EQ(gone, 0);
  files_->Shutdown();
  const absl::Time give_up = Loop::Now() + absl::Seconds(10);
  while (gone < 2 && Loop::Now() < give_up) loop_->RunOnce(absl::Milliseconds(10));
  EXPECT_EQ(gone, 2);
}

TEST_F(FilesLocksTest, WaitForLockOfServerProcessEnds) {
  const LockOwner a = Open("a");
  const int local = open(Local("f").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(local, LOCK_EX), 0);
  Waiting waiting(*this, a, wire::FlockRange(false));
  RunAWhile();
  EXPECT_FALSE(waiting.done);
  // Retries are 1, 2, 4, 8, ... ms apart, not continuous.
  WorkerReport report = files_->Report();
  EXPECT_LE(report.totals[wire::Proc::kLock].calls(), 10u);
  flock(local, LOCK_UN);
  RunUntil(waiting.done);
  EXPECT_EQ(waiting.answer->outcome, LockOutcome::kGranted);
  EXPECT_EQ(flock(local, LOCK_EX | LOCK_NB), -1);
  close(local);
}

TEST_F(FilesLocksTest, CancelledWaitLeavesTheQueue) {
  const LockOwner a = Open("a"), b = Open("b"), c = Open("c");
  EXPECT_EQ(Lock(a, all_), LockOutcome::kGranted);
  Waiting first(*this, b, all_);
  RunAWhile();
  first.wait.Cancel();
  RunUntil(first.done);
  EXPECT_EQ(first.answer->outcome, LockOutcome::kCancelled);
  Unlock(a);
  EXPECT_EQ(Lock(c, all_), LockOutcome::kGranted);
  EXPECT_EQ(client_->locks().count(), 1u);
  // If the wait was cancelled before its start, the client still sends one LOCK request.
  Waiting second(*this, b, all_);
  second.wait.Cancel();
  RunUntil(second.done);
  EXPECT_EQ(second.answer->outcome, LockOutcome::kCancelled);
}

TEST_F(FilesLocksTest, GiveBackRestoresTheLocksHeldBefore) {
  const LockOwner a = Open("a"), b = Open("b");
  EXPECT_EQ(Lock(a, {10, 19, false}), LockOutcome::kGranted);
  EXPECT_EQ(Lock(a, {30, 39, true}), LockOutcome::kGranted);
  absl::StatusOr<LockAnswer> answer = Await(files_->locks().Lock(root_user_, a, {5, 50, true}));
  ASSERT_STATUS_OK(answer);
  EXPECT_STATUS_OK(Await(files_->locks().GiveBack(root_user_, a, {5, 50, true}, answer->before)));
  EXPECT_EQ(client_->locks().HeldBy(a.file, a.state_id),
            (std::vector<wire::LockRange>{{10, 19, false}, {30, 39, true}}));
  EXPECT_EQ(Lock(b, {0, 29, false}), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, {40, 60, true}), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, {39, 39, false}), LockOutcome::kDenied);
  // The same if the owner already held the whole range.
  answer = Await(files_->locks().Lock(root_user_, a, {35, 39, false}));
  EXPECT_STATUS_OK(Await(files_->locks().GiveBack(root_user_, a, {35, 39, false}, answer->before)));
  EXPECT_EQ(Lock(b, {35, 35, false}), LockOutcome::kDenied);
}

TEST_F(FilesLocksTest, CycleOfWaitsIsADeadlock) {
  const LockOwner a = Open("a", 1), b = Open("b", 2);
  EXPECT_EQ(Lock(a, {0, 0, true}), LockOutcome::kGranted);
  EXPECT_EQ(Lock(b, {1, 1, true}), LockOutcome::kGranted);
  Waiting first(*this, a, {1, 1, true});
  RunAWhile();
  Waiting second(*this, b, {0, 0, true});
  RunUntil(second.done);
  EXPECT_EQ(second.answer->outcome, LockOutcome::kDeadlock);
  EXPECT_FALSE(first.done);
  Unlock(b);
  RunUntil(first.done);
  EXPECT_EQ(first.answer->outcome, LockOutcome::kGranted);
}

TEST_F(FilesLocksTest, ShutdownEndsWaits) {
  const LockOwner a = Open("a"), b = Open("b");
  EXPECT_EQ(Lock(a, all_), LockOutcome::kGranted);
  Waiting waiting(*this, b, all_);
  RunAWhile();
  files_->Shutdown();
  EXPECT_TRUE(waiting.done);
  EXPECT_TRUE(absl::IsCancelled(waiting.answer.status())) << waiting.answer.status();
}

}  // namespace
}  // namespace dafs::client
