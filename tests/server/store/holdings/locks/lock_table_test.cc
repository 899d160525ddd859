// The table of locks: conflicts, the order of waiters, and random operations against a model.
#include "server/store/holdings/locks/lock_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "wire/protocol/process_owner.h"

namespace dafs::server {
namespace {

using wire::LockRange;

class LockTableTest : public testing::Test {
 protected:
  static ObjectKey File(uint64_t number) {
    ObjectKey key{};
    key.bytes[0] = static_cast<uint8_t>(number);
    return key;
  }
  static LockOwner Owner(uint64_t client, const std::string& name) {
    return {wire::OpaqueFromUint64<wire::ClientId>(client), name};
  }
  bool Try(const LockOwner& owner, const LockRange& range) {
    if (table_.Check(file_, owner, range, now_)) return false;
    table_.Grant(file_, owner, range);
    return true;
  }
  // As a blocking LOCK: grants the lock, or leaves a ticket.
  bool Ask(const LockOwner& owner, const LockRange& range) {
    if (Try(owner, range)) return true;
    EXPECT_TRUE(table_.Wait(file_, owner, range, now_, {}));
    return false;
  }
  // As a blocking LOCK of a client that waits for a notice, and is denied.
  void Await(const LockOwner& owner, const LockRange& range) {
    EXPECT_TRUE(table_.Check(file_, owner, range, now_).has_value());
    EXPECT_TRUE(table_.Wait(file_, owner, range, now_, {.awaits = true}));
  }
  // As a LOCK of a process that waits. Returns false if it is granted or refused as a deadlock.
  bool WaitAsProcess(uint64_t file, const LockOwner& owner, const LockRange& range) {
    if (!table_.Check(File(file), owner, range, now_).has_value()) return false;
    return table_.Wait(File(file), owner, range, now_, {.awaits = true, .of_process = true});
  }
  // The owner of a process of a client, for one file.
  static LockOwner Process(uint64_t client, uint64_t process, uint64_t file) {
    return Owner(client, wire::ProcessOwner(process, file));
  }
  // The owners whose turn it is, in order.
  std::string Turns() {
    std::string names;
    for (const LockTable::Turn& turn : table_.TakeTurns(now_)) names += turn.owner.owner;
    return names;
  }
  void Unlock(const LockOwner& owner, const LockRange& range) {
    std::unique_ptr<KernelLock> none;
    table_.Clear(file_, owner, range.first, range.last, &none);
  }

  LockTable table_;
  std::unique_ptr<KernelLock> none_;
  const ObjectKey file_ = File(1);
  const LockOwner a_ = Owner(1, "a"), b_ = Owner(1, "b"), c_ = Owner(2, "a");
  const LockRange all_{0, 99, true};
  absl::Time now_ = absl::UnixEpoch();
};

// Client id and owner string together form the owner.
TEST_F(LockTableTest, ConflictReportsItsHolder) {
  EXPECT_TRUE(Try(a_, {10, 19, false}));
  EXPECT_TRUE(Try(c_, {15, 29, false}));
  auto conflict = table_.Check(file_, b_, {25, 25, true}, now_);
  ASSERT_TRUE(conflict.has_value());
  EXPECT_EQ(conflict->owner, c_);
  EXPECT_EQ(conflict->range, (LockRange{15, 29, false}));
  EXPECT_FALSE(Try(a_, {18, 18, true}));  // c reads there
  EXPECT_TRUE(Try(a_, {10, 14, true}));   // an upgrade of a part
  EXPECT_FALSE(Try(b_, {10, 10, false}));
  EXPECT_FALSE(table_.Check(File(2), b_, all_, now_).has_value());
  EXPECT_EQ(table_.size(), 3u);
  table_.Release(file_, a_);
  table_.Release(file_, c_);
  EXPECT_EQ(table_.size(), 0u);
}

// Shows DAFS-4.4.1.2-17
TEST_F(LockTableTest, OldestWaiterIsServedFirst) {
  EXPECT_TRUE(Ask(a_, all_));
  EXPECT_FALSE(Ask(b_, all_));
  EXPECT_FALSE(Ask(c_, all_));
  EXPECT_EQ(table_.waiting(), 2u);
  Unlock(a_, all_);
  // The range is reserved for b: c came later, a tries again, and others do not wait.
  EXPECT_FALSE(Ask(c_, all_));
  EXPECT_FALSE(Ask(a_, all_));
  auto kept = table_.Check(file_, a_, {5, 5, false}, now_);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->owner, b_);
  EXPECT_TRUE(Ask(b_, all_));
  Unlock(b_, all_);
  EXPECT_FALSE(Ask(a_, all_));
  EXPECT_TRUE(Ask(c_, all_));
  Unlock(c_, all_);
  EXPECT_TRUE(Ask(a_, all_));
  EXPECT_EQ(table_.waiting(), 0u);
}

TEST_F(LockTableTest, AbandonedTicketDelaysNoOtherWaiter) {
  EXPECT_TRUE(Ask(a_, all_));
  EXPECT_FALSE(Ask(b_, all_));
  EXPECT_FALSE(Ask(c_, all_));
  Unlock(a_, all_);
  table_.StopWaiting(file_, b_, all_);
  EXPECT_TRUE(Ask(c_, all_));
  EXPECT_FALSE(Ask(b_, all_));
  Unlock(c_, all_);
  now_ += LockTable::kTicketLife + absl::Milliseconds(1);  // b does not retry
  EXPECT_TRUE(Try(a_, all_));
  Unlock(a_, all_);
  EXPECT_FALSE(table_.Release(file_, b_));
  EXPECT_EQ(table_.waiting(), 0u);
}

// A ticket is not a lock: it reserves its range only if the lock could be granted now.
TEST_F(LockTableTest, BlockedTicketReservesNothing) {
  EXPECT_TRUE(Ask(a_, {0, 9, false}));
  EXPECT_FALSE(Ask(b_, all_));           // waits for a
  EXPECT_TRUE(Ask(c_, {0, 9, false}));   // beside a, as on a local file system
  EXPECT_TRUE(Ask(a_, {50, 59, true}));  // a does not wait for a ticket that waits for a
  // The same if the kernel denies the lock.
  table_.Release(file_, a_);
  table_.Release(file_, c_);
  EXPECT_TRUE(table_.Wait(file_, b_, all_, now_, {.by_kernel = true}));
  EXPECT_TRUE(Ask(c_, {0, 9, false}));
}

TEST_F(LockTableTest, LocksAndTicketsOfClientAreBounded) {
  for (uint64_t i = 0; i < LockTable::kLocksPerClient; ++i) {
    ASSERT_TRUE(table_.MayGrant(a_));
    table_.Grant(file_, a_, {2 * i, 2 * i, false});
  }
  EXPECT_FALSE(table_.MayGrant(a_));
  EXPECT_FALSE(table_.MayGrant(b_));  // of the same client
  EXPECT_TRUE(table_.MayGrant(c_));
  for (uint64_t i = 0; i < LockTable::kTicketsPerClient + 10; ++i) {
    EXPECT_TRUE(table_.Wait(file_, Owner(2, std::to_string(i)), all_, now_, {}));
  }
  EXPECT_EQ(table_.waiting(), LockTable::kTicketsPerClient);
}

TEST_F(LockTableTest, FirstWaiterHasItsTurnOnce) {
  EXPECT_TRUE(Ask(a_, all_));
  Await(b_, all_);
  Await(c_, all_);
  EXPECT_EQ(Turns(), "");
  Unlock(a_, {50, 59, true});  // b needs the rest too
  EXPECT_EQ(Turns(), "");
  Unlock(a_, all_);
  EXPECT_TRUE(table_.has_turns());
  EXPECT_EQ(Turns(), "b");
  EXPECT_FALSE(table_.has_turns());
  EXPECT_FALSE(Try(c_, all_));  // reserved
  EXPECT_TRUE(Try(b_, all_));
  EXPECT_EQ(Turns(), "");
  Unlock(b_, all_);
  EXPECT_EQ(Turns(), "a");  // that is c
}

TEST_F(LockTableTest, WaitersOfOtherRangesAndReadersHaveTheirTurnTogether) {
  EXPECT_TRUE(Ask(a_, all_));
  Await(b_, {0, 9, false});
  Await(c_, {0, 9, false});
  Await(Owner(3, "w"), {5, 5, true});  // after the readers
  Await(Owner(3, "x"), {20, 29, true});
  Unlock(a_, {0, 29, true});
  EXPECT_EQ(Turns(), "bax");
}

// A lock that becomes one for reading, and the end of an open.
TEST_F(LockTableTest, DowngradeAndReleaseGiveTurns) {
  EXPECT_TRUE(Ask(a_, all_));
  Await(b_, {0, 9, false});
  Await(c_, {0, 9, true});
  EXPECT_TRUE(Ask(a_, {0, 9, false}));
  EXPECT_EQ(Turns(), "b");
  EXPECT_TRUE(Ask(b_, {0, 9, false}));
  table_.Release(file_, a_);
  EXPECT_EQ(Turns(), "");
  table_.Release(file_, b_);
  EXPECT_EQ(Turns(), "a");
}

// Shows DAFS-4.4.1.2-18: the next waiter gets the turn of one that withdraws, cannot be notified,
// or does not come.
TEST_F(LockTableTest, TurnPassesToTheNextWaiter) {
  const LockOwner d = Owner(4, "d"), e = Owner(5, "e"), f = Owner(6, "f");
  EXPECT_TRUE(Ask(a_, all_));
  for (const LockOwner& owner : {b_, c_, d, e, f}) Await(owner, all_);
  Unlock(a_, all_);
  EXPECT_EQ(Turns(), "b");
  table_.StopWaiting(file_, b_, all_);
  std::vector<LockTable::Turn> turns = table_.TakeTurns(now_);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].owner, c_);
  table_.DropTurn(turns[0]);
  EXPECT_EQ(Turns(), "d");
  table_.DropAwaiting(d.client_id);
  EXPECT_EQ(Turns(), "e");
  now_ += LockTable::kTicketLife + absl::Milliseconds(1);
  EXPECT_TRUE(Try(f, all_));  // e does not come
}

// Shows that retries every five seconds keep the place.
TEST_F(LockTableTest, TicketOfAwaitingClientLivesLonger) {
  EXPECT_TRUE(Ask(a_, all_));
  Await(b_, all_);
  Await(c_, all_);
  now_ += LockTable::kAwaitingTicketLife;
  Unlock(a_, all_);
  EXPECT_EQ(Turns(), "b");
  now_ += LockTable::kTicketLife;
  EXPECT_FALSE(Try(c_, all_));
}

// Others retry by themselves: a waiter that wants no notice, and one that a program on the server
// keeps waiting. The latter reserves nothing, so the next one has its turn.
TEST_F(LockTableTest, RetryingWaiterHasNoTurn) {
  EXPECT_TRUE(Ask(a_, all_));
  EXPECT_FALSE(Ask(b_, all_));
  Await(c_, all_);
  Unlock(a_, all_);
  EXPECT_EQ(Turns(), "");
  EXPECT_TRUE(table_.Wait(file_, b_, all_, now_, {.by_kernel = true, .awaits = true}));
  EXPECT_EQ(Turns(), "a");
}

TEST_F(LockTableTest, CircleOfTwoClientsIsADeadlock) {
  const LockOwner p1 = Process(1, 7, 1), p2 = Process(1, 7, 2);
  const LockOwner q1 = Process(2, 7, 1), q2 = Process(2, 7, 2);  // the same number, elsewhere
  table_.Grant(File(1), p1, all_);
  table_.Grant(File(2), q2, all_);
  EXPECT_TRUE(WaitAsProcess(2, p2, all_));
  EXPECT_FALSE(WaitAsProcess(1, q1, all_));
  EXPECT_EQ(table_.waiting(), 1u);  // the refused one has no ticket
  // Not with a part of the file that p does not hold, nor after p has released its lock.
  table_.Release(File(1), p1);
  table_.Grant(File(1), p1, {0, 9, true});
  EXPECT_FALSE(table_.Check(File(1), q1, {10, 19, true}, now_).has_value());
  table_.Grant(File(1), Owner(3, "x"), {10, 19, true});
  EXPECT_TRUE(WaitAsProcess(1, q1, {10, 19, true}));
}

TEST_F(LockTableTest, CircleOfThreeClientsIsADeadlock) {
  for (uint64_t i = 1; i <= 3; ++i) table_.Grant(File(i), Process(i, 9, i), all_);
  EXPECT_TRUE(WaitAsProcess(2, Process(1, 9, 2), all_));
  EXPECT_TRUE(WaitAsProcess(3, Process(2, 9, 3), {0, 0, false}));
  EXPECT_FALSE(WaitAsProcess(1, Process(3, 9, 1), {99, 99, false}));
}

// An owner with a name of another kind is a process of its own.
TEST_F(LockTableTest, OtherOwnersAreProcessesOfTheirOwn) {
  table_.Grant(File(1), a_, all_);
  table_.Grant(File(2), c_, all_);
  EXPECT_TRUE(WaitAsProcess(2, a_, all_));
  EXPECT_TRUE(WaitAsProcess(1, b_, all_));  // of the same client as a
  EXPECT_FALSE(WaitAsProcess(1, c_, all_));
}

// Waits that have ended, and those that do not hold up a process, are part of no deadlock.
TEST_F(LockTableTest, EndedWaitIsPartOfNoDeadlock) {
  const LockOwner p1 = Process(1, 7, 1), p2 = Process(1, 7, 2);
  const LockOwner q1 = Process(2, 8, 1), q2 = Process(2, 8, 2);
  table_.Grant(File(1), p1, all_);
  table_.Grant(File(2), q2, all_);
  const auto q_may_wait = [&] {
    const bool may = WaitAsProcess(1, q1, all_);
    table_.StopWaiting(File(1), q1, all_);
    return may;
  };
  EXPECT_TRUE(table_.Wait(File(2), p2, all_, now_, {.awaits = true}));  // of an OFD lock
  EXPECT_TRUE(q_may_wait());
  EXPECT_TRUE(WaitAsProcess(2, p2, all_));
  EXPECT_FALSE(q_may_wait());
  now_ += LockTable::kAwaitingTicketLife + absl::Milliseconds(1);
  EXPECT_TRUE(q_may_wait());
  EXPECT_TRUE(WaitAsProcess(2, p2, all_));
  table_.DropAwaiting(p1.client_id);
  EXPECT_TRUE(q_may_wait());
  EXPECT_TRUE(WaitAsProcess(2, p2, all_));
  table_.Release(File(2), p2);  // its open was closed
  EXPECT_TRUE(q_may_wait());
  EXPECT_TRUE(WaitAsProcess(2, p2, all_));
  table_.Clear(File(2), q2, 0, 99, &none_);
  table_.Grant(File(2), p2, all_);
  table_.Grant(File(2), q2, {200, 200, true});
  EXPECT_TRUE(q_may_wait());
}

// Two opens of one process for one file exist while the earlier one is closed.
TEST_F(LockTableTest, ProcessDoesNotWaitForItself) {
  table_.Grant(File(1), Process(1, 7, 1), all_);
  EXPECT_TRUE(WaitAsProcess(1, Process(1, 7, 2), all_));
}

// Random owners, ranges and operations against an array of bytes. No held locks ever conflict.
TEST_F(LockTableTest, AgreesWithModelOfBytes) {
  constexpr size_t kOwners = 4, kBytes = 24;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    LockTable table;
    std::array<std::array<int, kBytes>, kOwners> model{};
    const auto owner = [&](size_t i) { return Owner(i / 2, std::string(1, 'a' + char(i % 2))); };
    for (int step = 0; step < 1000; ++step) {
      const size_t who = random() % kOwners;
      const uint64_t first = random() % kBytes;
      const uint64_t last = first + random() % (kBytes - first);
      const int kind = static_cast<int>(random() % 4);
      if (kind == 3 && random() % 4 == 0) {
        table.Release(file_, owner(who));
        model[who].fill(0);
      } else if (kind == 0 || kind == 3) {
        std::unique_ptr<KernelLock> none;
        table.Clear(file_, owner(who), first, last, &none);
        std::fill(&model[who][first], &model[who][last] + 1, 0);
      } else {
        bool free = true;
        for (size_t other = 0; other < kOwners; ++other) {
          for (uint64_t byte = first; byte <= last && other != who; ++byte) {
            free &= model[other][byte] == 0 || (model[other][byte] == 1 && kind == 1);
          }
        }
        const LockRange range{first, last, kind == 2};
        ASSERT_EQ(!table.CheckHeld(file_, owner(who), range), free) << "step " << step;
        ASSERT_EQ(!table.Check(file_, owner(who), range, now_), free) << "step " << step;
        if (!free) continue;
        table.Grant(file_, owner(who), range);
        std::fill(&model[who][first], &model[who][last] + 1, kind);
      }
    }
    for (size_t i = 0; i < kOwners; ++i) table.Release(file_, owner(i));
    EXPECT_EQ(table.size(), 0u);
  }
}

}  // namespace
}  // namespace dafs::server
