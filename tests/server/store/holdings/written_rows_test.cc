// How many rows of the database a change of a recorded lock writes: those that it changes, however
// many locks the owner has. Counts, not times. Spec: 4.4.1.3, 4.4.1.4.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <set>
#include <string>

#include "server/store/durable/database.h"
#include "server/store/durable/row_difference.h"
#include "server/store/holdings/caller.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/holdings/undo/undo_rows.h"
#include "tests/server/scratch_export.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

constexpr uint64_t kLocks = 200;  // of one owner, with a gap after each

class WrittenRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(base_.empty());
    caller_.client_id = wire::OpaqueFromUint64<wire::ClientId>(1);
    caller_.client_name = "node1";
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  // Rows inserted, updated and deleted since the database was opened.
  int Written() {
    int count = 0;
    EXPECT_TRUE(database_
                    .Transact([&](sqlite3* connection) {
                      count = sqlite3_total_changes(connection);
                      return absl::OkStatus();
                    })
                    .ok());
    return count;
  }
  static wire::LockRange Range(uint64_t n) { return {n * 10, n * 10 + 4, /*write=*/true}; }
  DafsStatus Lock(const std::string& owner, uint64_t n, uint8_t kind) {
    return locks_.Granted(caller_, file_, owner, Range(n), kind, /*repair=*/false);
  }
  DafsStatus Unlock(const std::string& owner, uint64_t n) {
    return locks_.Release(caller_.client_id, file_, owner, Range(n).first, Range(n).last,
                          [](sqlite3*) { return absl::OkStatus(); });
  }
  // The ranges that another instance of the server finds.
  std::multiset<uint64_t> Stored() {
    PersistentLocks again(database_);
    EXPECT_TRUE(again.Load().ok());
    std::multiset<uint64_t> stored;
    for (const PersistentLocks::Entry& each : again.List()) stored.insert(each.range.first);
    return stored;
  }

  const std::string base_ = MakeScratch("rows");
  Database database_{base_ + "/state"};
  PersistentLocks locks_{database_};
  Caller caller_;
  const ObjectKey file_{};
};

TEST_F(WrittenRowsTest, FurtherLockWritesOneRow) {
  ASSERT_EQ(Lock("owner", 0, PersistentLocks::kPersists), DafsStatus::kOk);
  const int before = Written();
  for (uint64_t n = 1; n < kLocks; ++n) {
    ASSERT_EQ(Lock("owner", n, PersistentLocks::kPersists), DafsStatus::kOk);
  }
  EXPECT_EQ(Written() - before, static_cast<int>(kLocks - 1));
  EXPECT_EQ(Stored().size(), kLocks);
}

TEST_F(WrittenRowsTest, LockOfAnotherOwnerWritesOneRow) {
  for (uint64_t n = 0; n < kLocks; ++n) {
    const int before = Written();
    ASSERT_EQ(Lock("owner " + std::to_string(n % 7), n, PersistentLocks::kRecovers),
              DafsStatus::kOk);
    EXPECT_EQ(Written() - before, 1) << n;
  }
}

TEST_F(WrittenRowsTest, UnlockWritesOneRow) {
  for (uint64_t n = 0; n < kLocks; ++n) {
    ASSERT_EQ(Lock("owner", n, PersistentLocks::kPersists), DafsStatus::kOk);
  }
  const int before = Written();
  for (uint64_t n = 0; n < kLocks; n += 2) ASSERT_EQ(Unlock("owner", n), DafsStatus::kOk);
  EXPECT_EQ(Written() - before, static_cast<int>(kLocks / 2));
  const std::multiset<uint64_t> stored = Stored();
  EXPECT_EQ(stored.size(), kLocks / 2);
  EXPECT_FALSE(stored.contains(Range(0).first));
  EXPECT_TRUE(stored.contains(Range(1).first));
}

// Two ranges become one: a row is replaced.
TEST_F(WrittenRowsTest, NeighbouringLockReplacesOneRow) {
  for (uint64_t n = 0; n < kLocks; ++n) {
    ASSERT_EQ(Lock("owner", n, PersistentLocks::kPersists), DafsStatus::kOk);
  }
  const int before = Written();
  ASSERT_EQ(
      locks_.Granted(caller_, file_, "owner", {5, 6, true}, PersistentLocks::kPersists, false),
      DafsStatus::kOk);
  EXPECT_EQ(Written() - before, 2);
  EXPECT_EQ(Stored().size(), kLocks);
}

TEST_F(WrittenRowsTest, BrokenLocksAreReplacedOnce) {
  for (uint64_t n = 0; n < kLocks; ++n) {
    ASSERT_EQ(Lock("owner", n, PersistentLocks::kPersists), DafsStatus::kOk);
  }
  const int before = Written();
  wire::Verifier next;
  next.bytes[0] = 1;
  locks_.Arrived("node1", next);
  EXPECT_EQ(Written() - before, static_cast<int>(2 * kLocks));
  EXPECT_EQ(Stored().size(), kLocks);
}

// The undo log: LOCKU of one of many ranges whose old bytes are saved.
TEST_F(WrittenRowsTest, FinalRangeDeletesItsUndoRow) {
  UndoEntry entry;
  entry.holder = {"node1", {}, "owner"};
  entry.id = 1;
  const auto write = [&](const UndoRecord* added) {
    const absl::Status status = database_.Transact(
        [&](sqlite3* connection) { return WriteUndoEntry(connection, file_, entry, added); });
    EXPECT_TRUE(status.ok()) << status;
  };
  for (uint64_t n = 0; n < kLocks; ++n) {
    UndoRecord added;
    (n % 2 == 0 ? added.data : added.zeros).Set(Range(n));
    Add(entry.record, added);
    const int before = Written();
    write(&added);
    EXPECT_EQ(Written() - before, 2) << n;  // the owner's row, and the range
  }
  for (uint64_t n = 0; n + 1 < kLocks; ++n) {
    entry.record.data.Clear(Range(n).first, Range(n).last);
    entry.record.zeros.Clear(Range(n).first, Range(n).last);
    const int before = Written();
    write(nullptr);
    EXPECT_EQ(Written() - before, 2) << n;
  }
  size_t entries = 0;
  ASSERT_TRUE(database_
                  .Transact([&](sqlite3* connection) {
                    return ReadUndoEntries(
                        connection, [&](const ObjectKey&, const UndoEntry& read) {
                          ++entries;
                          EXPECT_TRUE(read.record.data.empty());
                          ASSERT_EQ(read.record.zeros.ranges().size(), 1u);
                          EXPECT_EQ(read.record.zeros.ranges()[0], Range(kLocks - 1));
                        });
                  })
                  .ok());
  EXPECT_EQ(entries, 1u);
  entry.record = {};
  write(nullptr);
  EXPECT_TRUE(database_
                  .Transact([&](sqlite3* connection) {
                    return ReadUndoEntries(connection, [](const ObjectKey&, const UndoEntry&) {
                      ADD_FAILURE() << "an empty record has no rows";
                    });
                  })
                  .ok());
}

TEST(RowDifferenceTest, EqualRowsCountOneByOne) {
  const auto difference = DifferenceOf<int>({{2, 20}, {1, 10}, {2, 21}, {5, 50}}, {2, 3, 1, 1});
  EXPECT_EQ(difference.gone, (std::vector<int64_t>{21, 50}));
  EXPECT_EQ(difference.added, (std::vector<int>{1, 3}));
}

}  // namespace
}  // namespace dafs::server
