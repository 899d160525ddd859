// The table of delegations: what may be granted, what is recalled, and what waits for that.
#include "server/store/holdings/delegations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/loop/loop.h"

namespace dafs::server {
namespace {

using Type = Delegations::Type;
using Use = Delegations::Use;
using testing::IsEmpty;
using testing::SizeIs;

ObjectKey Key(uint64_t number) {
  ObjectKey key;
  std::memcpy(key.bytes.data() + 18, &number, sizeof(number));
  return key;
}
wire::ClientId Id(uint64_t number) { return wire::OpaqueFromUint64<wire::ClientId>(number); }

class DelegationsTest : public testing::Test {
 protected:
  DelegationsTest() {
    table_.SetHooks({[this](const auto& recall) { recalls_.push_back(recall); },
                     [this](const auto& asked) { asked_.push_back(asked); }});
    for (uint64_t client = 1; client <= 3; ++client) table_.Admit(Id(client), "client");
  }
  // Whether the client may get a delegation of this type. It is removed again.
  bool MayGet(uint64_t key, uint64_t client, Type type = Type::kWrite) {
    const auto state_id = wire::OpaqueFromUint64<wire::StateId>(++serial_);
    const bool may = table_.MayAdd(Key(key), Id(client), type, now_) &&
                     table_.TryAdd({Id(client), state_id, Key(key), type});
    if (may) table_.Remove(state_id);
    return may;
  }
  wire::StateId Add(uint64_t key, uint64_t client, Type type = Type::kRead) {
    const auto state_id = wire::OpaqueFromUint64<wire::StateId>(++serial_);
    table_.Add({Id(client), state_id, Key(key), type});
    return state_id;
  }
  bool IsFree(uint64_t key, uint64_t client, Use use) {
    awaited_.clear();
    return table_.IsFree(Key(key), Id(client), use, &awaited_);
  }
  bool Reported(uint64_t client) {
    awaited_.clear();
    return table_.Reported(Key(1), Id(client), now_, &awaited_, &values_);
  }

  Delegations table_{{.most = Type::kWrite, .of_client = 3}};
  absl::Time now_ = Loop::Now();
  uint64_t serial_ = 0;
  std::vector<Delegations::Recall> recalls_;
  std::vector<Delegations::Delegation> asked_;
  Delegations::AwaitedList awaited_;
  Delegations::Values values_;
};

TEST_F(DelegationsTest, ManyReadOrOneWriteDelegation) {
  EXPECT_TRUE(MayGet(1, 1));
  EXPECT_TRUE(MayGet(1, 1, Type::kRead));
  Add(1, 1);
  EXPECT_TRUE(MayGet(1, 2, Type::kRead));
  EXPECT_FALSE(MayGet(1, 2, Type::kWrite));
  EXPECT_FALSE(MayGet(1, 1, Type::kRead)) << "it has one already";
  Add(2, 1, Type::kWrite);
  EXPECT_FALSE(MayGet(2, 2));
}

TEST_F(DelegationsTest, AReadDelegationOfOneClientBecomesAWriteDelegation) {
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_)) << "it has none";
  const wire::StateId first = Add(1, 1);
  const wire::StateId second = Add(1, 2);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_)) << "another has one";
  table_.Remove(second);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(2), now_));
  const auto upgraded = table_.Upgrade(Key(1), Id(1), now_);
  ASSERT_TRUE(upgraded.has_value());
  EXPECT_EQ(upgraded->state_id, first);
  EXPECT_EQ(upgraded->type, Type::kWrite);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_)) << "it is one already";
  EXPECT_TRUE(table_.Downgrade(first));
  EXPECT_TRUE(IsFree(1, 2, Use::kReads));
  EXPECT_TRUE(table_.Upgrade(Key(1), Id(1), now_));
  EXPECT_FALSE(IsFree(1, 2, Use::kReads));
  EXPECT_FALSE(table_.Downgrade(first)) << "it is being recalled";
  EXPECT_FALSE(table_.Downgrade(second)) << "it has ended";
}

TEST_F(DelegationsTest, NoUpgradeWhileItIsRecalledOrAfterARecall) {
  const wire::StateId first = Add(1, 1);
  EXPECT_FALSE(IsFree(1, 2, Use::kWrites));
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_ + Delegations::kNotAgainFor));
  table_.Remove(first);
  Add(1, 1);
  EXPECT_FALSE(table_.Upgrade(Key(1), Id(1), now_));
  EXPECT_TRUE(table_.Upgrade(Key(1), Id(1), now_ + 2 * Delegations::kNotAgainFor));
}

TEST_F(DelegationsTest, OnlyAnAdmittedClientGetsOne) {
  EXPECT_FALSE(MayGet(1, 9));
  table_.Forget(Id(1));
  EXPECT_FALSE(MayGet(1, 1));
  Delegations none({.most = Type::kNone});
  none.SetHooks({[](const auto&) {}, [](const auto&) {}});
  none.Admit(Id(1), "client");
  EXPECT_FALSE(none.IsAdmitted(Id(1)));
  EXPECT_FALSE(none.MayAdd(Key(1), Id(1), Type::kWrite, now_));
}

TEST_F(DelegationsTest, ReadsConflictWithWriteDelegationsOfOthers) {
  Add(1, 1);
  EXPECT_TRUE(IsFree(1, 2, Use::kReads));
  EXPECT_TRUE(IsFree(1, 1, Use::kWrites));
  Add(2, 1, Type::kWrite);
  EXPECT_TRUE(IsFree(2, 1, Use::kWrites));
  EXPECT_TRUE(IsFree(3, 2, Use::kWrites));
  EXPECT_THAT(recalls_, IsEmpty());
  EXPECT_FALSE(IsFree(2, 2, Use::kReads));
  EXPECT_THAT(awaited_, SizeIs(1));
  EXPECT_THAT(recalls_, SizeIs(1));
}

// All holders are recalled, each once, and each request that conflicts waits for each of them.
TEST_F(DelegationsTest, AChangeRecallsEachHolderOnceAndWaitsForAll) {
  const auto first = Add(1, 1), second = Add(1, 2);
  EXPECT_FALSE(IsFree(1, 3, Use::kWrites));
  EXPECT_THAT(awaited_, SizeIs(2));
  EXPECT_THAT(recalls_, SizeIs(2));
  EXPECT_EQ(recalls_[0].client_name, "client");
  int ended = 0;
  for (const auto& awaited : awaited_) table_.Await(awaited, [&] { ++ended; });
  EXPECT_FALSE(IsFree(1, 3, Use::kWrites));
  EXPECT_THAT(recalls_, SizeIs(2));
  EXPECT_THAT(table_.RecallsOf(Id(1)), SizeIs(1));
  table_.Remove(first);
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(IsFree(1, 3, Use::kWrites));
  table_.Remove(second);
  EXPECT_EQ(ended, 2);
  EXPECT_TRUE(IsFree(1, 3, Use::kWrites));
  table_.Await({second}, [&] { ++ended; });
  EXPECT_EQ(ended, 3) << "it has ended";
}

TEST_F(DelegationsTest, NoDelegationForAWhileAfterARecall) {
  const auto state_id = Add(1, 1);
  EXPECT_FALSE(IsFree(1, 2, Use::kWrites));
  table_.Remove(state_id);
  now_ = Loop::Now() + absl::Seconds(1);
  EXPECT_FALSE(MayGet(1, 3));
  now_ += Delegations::kNotAgainFor;
  EXPECT_TRUE(MayGet(1, 3));
}

TEST_F(DelegationsTest, ARecallKeepsNoOtherFileFromADelegation) {
  constexpr uint64_t kRecalled = 100, kOthers = 10'000;
  for (uint64_t file = 0; file < kRecalled; ++file) {
    const auto state_id = Add(file, 1);
    EXPECT_FALSE(IsFree(file, 2, Use::kWrites));
    table_.Remove(state_id);
  }
  now_ = Loop::Now();
  for (uint64_t file = kRecalled; file < kOthers; ++file) EXPECT_TRUE(MayGet(file, 3)) << file;
}

TEST_F(DelegationsTest, RecallsAreTimedForEachClient) {
  const auto first = Add(1, 1), second = Add(2, 2);
  IsFree(1, 3, Use::kWrites);
  IsFree(2, 3, Use::kWrites);
  EXPECT_EQ(table_.GetCounts().recalls.begun, 2u);
  EXPECT_EQ(table_.GetCounts().recalls.ended, 0u);
  table_.Remove(first);
  table_.NoteRevoked(second);
  table_.Remove(second);
  table_.Remove(Add(3, 1));
  const Delegations::RecallTimes all = table_.GetCounts().recalls;
  EXPECT_EQ(all.ended, 2u);
  EXPECT_EQ(all.revoked, 1u);
  EXPECT_GT(all.longest, absl::ZeroDuration());
  EXPECT_LE(all.mean(), all.longest);
  EXPECT_EQ(table_.RecallTimesOf(Id(1)).ended, 1u);
  EXPECT_EQ(table_.RecallTimesOf(Id(1)).revoked, 0u);
  EXPECT_EQ(table_.RecallTimesOf(Id(2)).revoked, 1u);
  EXPECT_EQ(table_.RecallTimesOf(Id(9)).begun, 0u);
}

TEST_F(DelegationsTest, TheOldestIsRecalledIfAClientHasTooMany) {
  const auto oldest = Add(1, 1);
  Add(2, 1);
  Add(3, 1);
  EXPECT_FALSE(MayGet(4, 1));
  ASSERT_THAT(recalls_, SizeIs(1));
  EXPECT_EQ(recalls_[0].state_id, oldest);
  EXPECT_FALSE(MayGet(4, 1));
  EXPECT_EQ(recalls_[1].key, Key(2));
  EXPECT_TRUE(MayGet(4, 2)) << "the limit is of one client";
  table_.Remove(oldest);
  EXPECT_TRUE(MayGet(4, 1));
}

TEST_F(DelegationsTest, ALaterInstanceMayClaimTheWriteDelegations) {
  const auto read = Add(1, 1), write = Add(2, 1, Type::kWrite);
  table_.Supersede(Id(1), Id(7), "client", now_ + absl::Seconds(60));
  table_.Remove(read);  // the opens of the earlier instance are closed
  table_.Remove(write);
  table_.Forget(Id(1));
  EXPECT_FALSE(table_.MayClaim(Key(1), Id(7), now_));
  EXPECT_TRUE(table_.MayClaim(Key(2), Id(7), now_));
  EXPECT_FALSE(table_.MayClaim(Key(2), Id(2), now_));
  EXPECT_FALSE(table_.MayClaim(Key(2), Id(7), now_ + absl::Seconds(60)));
  EXPECT_TRUE(IsFree(2, 7, Use::kWrites));
  EXPECT_FALSE(IsFree(2, 2, Use::kReads));
  ASSERT_THAT(recalls_, SizeIs(1));
  EXPECT_FALSE(recalls_[0].has_holder);
  bool ended = false;
  table_.Await(awaited_[0], [&] { ended = true; });
  table_.Claimed(Key(2), Id(7));
  EXPECT_TRUE(ended);
  EXPECT_FALSE(table_.MayClaim(Key(2), Id(7), now_));
}

TEST_F(DelegationsTest, ClaimsEndByPurgeAndByTime) {
  Add(1, 1, Type::kWrite);
  Add(2, 2, Type::kWrite);
  table_.Supersede(Id(1), Id(7), "client", now_ + absl::Seconds(60));
  table_.Supersede(Id(2), Id(8), "client", now_ + absl::Seconds(60));
  table_.Purge(Id(7));
  EXPECT_FALSE(table_.MayClaim(Key(1), Id(7), now_));
  EXPECT_TRUE(IsFree(1, 3, Use::kWrites));
  EXPECT_TRUE(table_.MayClaim(Key(2), Id(8), now_));
  table_.EndClaims(now_ + absl::Seconds(60));
  EXPECT_TRUE(IsFree(2, 3, Use::kWrites));
  EXPECT_EQ(table_.GetCounts().held, 0u);
}

// One BC_GETATTR serves all that wait, and another one is sent after a while.
TEST_F(DelegationsTest, TheHolderReportsWhatItMayHaveChanged) {
  const auto state_id = Add(1, 1, Type::kWrite);
  EXPECT_TRUE(Reported(1)) << "the holder itself";
  EXPECT_FALSE(Reported(2));
  EXPECT_FALSE(Reported(3));
  EXPECT_THAT(asked_, SizeIs(1));
  int answers = 0;
  table_.Await(awaited_[0], [&] { ++answers; });
  table_.SetReported(state_id, {.change = 7, .size = 5, .time_modify = {}}, now_);
  EXPECT_EQ(answers, 1);
  EXPECT_TRUE(Reported(2));
  EXPECT_EQ(values_.change, 7u);
  EXPECT_EQ(values_.size, 5u);
  now_ += Delegations::kAskedFor;
  EXPECT_FALSE(Reported(2));
  EXPECT_THAT(asked_, SizeIs(2));
  table_.Await(awaited_[0], [&] { ++answers; });
  table_.Remove(state_id);
  EXPECT_EQ(answers, 2);
  EXPECT_TRUE(Reported(2));
}

}  // namespace
}  // namespace dafs::server
