// The table of locks: conflicts, the order of waiters, and random operations against a model.
#include "server/store/holdings/lock_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

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
    table_.Wait(file_, owner, range, now_, false);
    return false;
  }
  void Unlock(const LockOwner& owner, const LockRange& range) {
    std::unique_ptr<KernelLock> none;
    table_.Clear(file_, owner, range.first, range.last, &none);
  }

  LockTable table_;
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
  EXPECT_EQ(table_.LocksOf(a_.client_id).size(), 2u);
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
  EXPECT_EQ(kept->owner, LockOwner());
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
  table_.Wait(file_, b_, all_, now_, true);
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
    table_.Wait(file_, Owner(2, std::to_string(i)), all_, now_, false);
  }
  EXPECT_EQ(table_.waiting(), LockTable::kTicketsPerClient);
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
