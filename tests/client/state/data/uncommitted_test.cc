// The store of uncommitted data, compared with a plain array of bytes.
#include "client/state/data/uncommitted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace dafs::client {
namespace {

wire::Verifier Verifier(uint64_t number) { return wire::OpaqueFromUint64<wire::Verifier>(number); }

class UncommittedTest : public ::testing::Test {
 protected:
  bool Write(uint64_t offset, std::string_view data, uint64_t verifier = 1) {
    EXPECT_TRUE(store_.BeginWrite(file_));
    bool kept = store_.Add(file_, user_, wire::StateId(), offset, std::as_bytes(std::span(data)),
                           nullptr, Verifier(verifier));
    store_.EndWrite(file_);
    return kept;
  }
  // Writes data that the store borrows instead of copying. Returns a reference to its owner.
  std::weak_ptr<const void> Lend(uint64_t offset, const std::string& data) {
    auto memory = std::make_shared<std::string>(data);
    EXPECT_TRUE(store_.BeginWrite(file_));
    EXPECT_TRUE(store_.Add(file_, user_, wire::StateId(), offset, std::as_bytes(std::span(*memory)),
                           memory, Verifier(1)));
    store_.EndWrite(file_);
    return memory;
  }
  // Rewrites all data that `verifier` does not cover, and returns it as (offset, data).
  std::vector<std::pair<uint64_t, std::string>> WriteAgain(uint64_t verifier, uint32_t most = 100) {
    std::vector<std::pair<uint64_t, std::string>> pieces;
    EXPECT_TRUE(store_.BeginRewrite(file_));
    while (auto piece = store_.NextStale(file_, Verifier(verifier), most)) {
      pieces.emplace_back(
          piece->offset,
          std::string(reinterpret_cast<const char*>(piece->data.data()), piece->data.size()));
      store_.Rewritten(file_, piece->offset, piece->data.size(), Verifier(verifier));
    }
    store_.EndRewrite(file_);
    return pieces;
  }
  bool Commit(uint64_t verifier) {
    return store_.AfterCommit(file_, store_.BeforeCommit(file_), Verifier(verifier));
  }

  Uncommitted store_{size_t{1} << 20};
  wire::FileHandle file_;
  Identity user_{1, 2, {3}};
};

using Pieces = std::vector<std::pair<uint64_t, std::string>>;

TEST_F(UncommittedTest, CommitUnderTheSameVerifierReleasesAllData) {
  EXPECT_FALSE(store_.Holds(file_));
  ASSERT_TRUE(Write(10, "data"));
  EXPECT_TRUE(store_.Holds(file_));
  EXPECT_GT(store_.bytes(), 0u);
  EXPECT_TRUE(Commit(1));
  EXPECT_FALSE(store_.Holds(file_));
}

TEST_F(UncommittedTest, KeptDataIsFoundByRange) {
  EXPECT_FALSE(store_.HoldsAnyOf(file_, 0, 100));
  ASSERT_TRUE(Write(10, "data"));
  ASSERT_TRUE(Write(20, "more"));
  EXPECT_FALSE(store_.HoldsAnyOf(file_, 0, 10));
  EXPECT_TRUE(store_.HoldsAnyOf(file_, 0, 11));
  EXPECT_TRUE(store_.HoldsAnyOf(file_, 13, 14));
  EXPECT_FALSE(store_.HoldsAnyOf(file_, 14, 20));
  EXPECT_TRUE(store_.HoldsAnyOf(file_, 14, 21));
  EXPECT_TRUE(store_.HoldsAnyOf(file_, 0, UINT64_MAX));
  EXPECT_FALSE(store_.HoldsAnyOf(file_, 24, UINT64_MAX));
}

// Shows DAFS-6.5.8-06.
TEST_F(UncommittedTest, ChangedVerifierCausesRewriteAndThenSafety) {
  ASSERT_TRUE(Write(10, "data"));
  EXPECT_FALSE(Commit(2));
  EXPECT_EQ(WriteAgain(2, 3), (Pieces{{10, "dat"}, {13, "a"}}));
  EXPECT_TRUE(Commit(2));
  EXPECT_FALSE(store_.Holds(file_));
}

TEST_F(UncommittedTest, WriteAfterTheCommitWasSentIsNotCovered) {
  ASSERT_TRUE(Write(0, "before"));
  uint64_t covered = store_.BeforeCommit(file_);
  ASSERT_TRUE(Write(6, "after"));
  EXPECT_TRUE(store_.AfterCommit(file_, covered, Verifier(1)));
  EXPECT_TRUE(store_.Holds(file_));
  EXPECT_EQ(WriteAgain(2), (Pieces{{6, "after"}}));
}

TEST_F(UncommittedTest, RewriteDuringACommitNeedsAnotherCommit) {
  ASSERT_TRUE(Write(0, "data"));
  uint64_t covered = store_.BeforeCommit(file_);
  EXPECT_EQ(WriteAgain(2), (Pieces{{0, "data"}}));
  EXPECT_FALSE(store_.AfterCommit(file_, covered, Verifier(2)));
  EXPECT_TRUE(store_.Holds(file_));
  EXPECT_TRUE(Commit(2));
  EXPECT_FALSE(store_.Holds(file_));
}

TEST_F(UncommittedTest, LaterDataReplacesEarlierData) {
  ASSERT_TRUE(Write(0, "aaaaaaaaaa"));
  ASSERT_TRUE(Write(3, "bbb", 2));
  EXPECT_EQ(WriteAgain(2), (Pieces{{0, "aaa"}, {6, "aaaa"}}));
  store_.Forget(file_, 5, UINT64_MAX);  // truncated
  EXPECT_EQ(WriteAgain(3), (Pieces{{0, "aaa"}, {3, "bb"}}));
}

TEST_F(UncommittedTest, BorrowedDataIsNotCopied) {
  const std::weak_ptr<const void> lent = Lend(10, "data");
  EXPECT_EQ(store_.bytes(), 0u);
  EXPECT_TRUE(store_.Holds(file_));
  auto piece = store_.NextStale(file_, Verifier(2), 100);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(
      piece->data.data(),
      std::as_bytes(std::span(*std::static_pointer_cast<const std::string>(lent.lock()))).data());
  EXPECT_FALSE(Commit(2));
  EXPECT_EQ(WriteAgain(2, 3), (Pieces{{10, "dat"}, {13, "a"}}));
  EXPECT_TRUE(Commit(2));
  EXPECT_FALSE(lent.expired());  // a rewrite still uses it
  piece.reset();
  EXPECT_TRUE(lent.expired());
}

TEST_F(UncommittedTest, BorrowedDataIsReleasedWithItsLastByte) {
  const std::weak_ptr<const void> lent = Lend(0, "aaaaaaaaaa");
  ASSERT_TRUE(Write(3, "bbb"));  // copied, into the middle
  const std::weak_ptr<const void> second = Lend(8, "cccc");
  EXPECT_EQ(WriteAgain(2), (Pieces{{0, "aaa"}, {3, "bbb"}, {6, "aa"}, {8, "cccc"}}));
  store_.Forget(file_, 6, UINT64_MAX);
  EXPECT_TRUE(second.expired());
  EXPECT_FALSE(lent.expired());
  ASSERT_TRUE(Write(0, "dddd"));
  EXPECT_TRUE(lent.expired());
  const std::weak_ptr<const void> third = Lend(0, "e");
  store_.Drop(file_);
  EXPECT_TRUE(third.expired());
}

TEST_F(UncommittedTest, WritersAndRewriterExcludeEachOther) {
  ASSERT_TRUE(Write(0, "x"));
  ASSERT_TRUE(store_.BeginWrite(file_));
  ASSERT_TRUE(store_.BeginRewrite(file_));
  EXPECT_FALSE(store_.BeginRewrite(file_));
  EXPECT_FALSE(store_.BeginWrite(file_));
  EXPECT_FALSE(store_.Drained(file_));
  store_.EndWrite(file_);
  EXPECT_TRUE(store_.Drained(file_));
  store_.EndRewrite(file_);
  EXPECT_TRUE(store_.BeginWrite(file_));
  store_.EndWrite(file_);
}

TEST_F(UncommittedTest, MemoryIsBoundedAndReused) {
  const std::string data(100000, 'x');
  int kept = 0;
  while (Write(static_cast<uint64_t>(kept) * data.size(), data)) ++kept;
  EXPECT_EQ(kept, 10);
  EXPECT_LE(store_.bytes(), store_.most_bytes());
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(Commit(1));
    for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(Write(i * data.size(), data)) << i;
  }
}

TEST_F(UncommittedTest, MemoryWithoutCopiesIsReleased) {
  const std::string data(100000, 'x');
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(Write(i * data.size(), data));
  const size_t taken = store_.memory_bytes();
  EXPECT_GE(taken, 5 * data.size());
  store_.ReleaseUnused();
  store_.ReleaseUnused();
  EXPECT_EQ(store_.memory_bytes(), taken);  // it holds uncommitted data
  EXPECT_TRUE(Commit(1));
  store_.ReleaseUnused();  // used since the last call
  EXPECT_EQ(store_.memory_bytes(), taken);
  ASSERT_TRUE(Write(0, data));
  EXPECT_TRUE(Commit(1));
  store_.ReleaseUnused();
  EXPECT_LT(store_.memory_bytes(), taken);
  store_.ReleaseUnused();
  EXPECT_EQ(store_.memory_bytes(), 0u);
  EXPECT_TRUE(Write(0, data));
  EXPECT_TRUE(Commit(1));
}

TEST_F(UncommittedTest, RandomWritesAreKeptByteForByte) {
  std::mt19937 random(1);
  std::string model(5000, '\0');
  std::string known(5000, '\0');
  for (int i = 0; i < 2000; ++i) {
    const uint64_t offset = random() % 4500;
    const std::string data(1 + random() % 400, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(Write(offset, data));
    model.replace(offset, data.size(), data);
    if (i % 50 == 0) {
      ASSERT_FALSE(Commit(2));
      for (const auto& [at, bytes] : WriteAgain(3, 64)) known.replace(at, bytes.size(), bytes);
      ASSERT_EQ(known, model) << i;
      // Simulates that the server lost that data too.
      for (const auto& [at, bytes] : WriteAgain(1, 64))
        ASSERT_EQ(model.substr(at, bytes.size()), bytes);
    }
  }
}

TEST_F(UncommittedTest, WriteDuringACommitWaitsForTheNextCommit) {
  EXPECT_FALSE(store_.NeedsCommit(file_));
  EXPECT_TRUE(Write(0, "data"));
  const uint64_t covered = store_.BeforeCommit(file_);
  EXPECT_TRUE(Write(10, "more"));
  EXPECT_TRUE(store_.AfterCommit(file_, covered, Verifier(1)));
  EXPECT_TRUE(store_.NeedsCommit(file_));
  EXPECT_TRUE(Commit(1));
  EXPECT_FALSE(store_.NeedsCommit(file_));
}

// A write that returned DATA_SYNC needs a COMMIT, but a restart does not lose it.
TEST_F(UncommittedTest, DataSyncWriteNeedsACommitUnderAnyVerifier) {
  store_.NeedCommit(file_, user_);
  EXPECT_TRUE(store_.NeedsCommit(file_));
  EXPECT_FALSE(store_.Holds(file_));
  EXPECT_EQ(store_.WriterOf(file_)->user.uid, user_.uid);
  const uint64_t covered = store_.BeforeCommit(file_);
  store_.NeedCommit(file_, user_);  // meanwhile
  EXPECT_TRUE(store_.AfterCommit(file_, covered, Verifier(9)));
  EXPECT_TRUE(store_.NeedsCommit(file_));
  EXPECT_TRUE(Commit(9));
  EXPECT_FALSE(store_.NeedsCommit(file_));
}

TEST_F(UncommittedTest, RemovedFileNeedsNoCommit) {
  EXPECT_TRUE(Write(0, "data"));
  store_.NeedCommit(file_, user_);
  store_.Drop(file_);
  EXPECT_FALSE(store_.NeedsCommit(file_));
  EXPECT_EQ(store_.bytes(), 0u);
}

}  // namespace
}  // namespace dafs::client
