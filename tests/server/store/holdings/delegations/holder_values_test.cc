// What the holders of write delegations report, and the requests that wait for it.
#include "server/store/holdings/delegations/holder_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/server/store/holdings/delegations/delegations_fixture.h"

namespace dafs::server {
namespace {

using testing::SizeIs;

class HolderValuesTest : public DelegationsFixture {
 protected:
  HolderValuesTest() {
    holders_.SetAsker([this](const auto& asked) { asked_.push_back(asked); });
  }
  bool Reported(uint64_t client) {
    awaited_.clear();
    return holders_.Reported(Key(1), Id(client), now_, &awaited_, &values_);
  }

  HolderValues holders_{records_};
  std::vector<Delegation> asked_;
  ReportedValues values_;
};

// One BC_GETATTR serves all that wait, and another one is sent after a while.
TEST_F(HolderValuesTest, TheHolderReportsWhatItMayHaveChanged) {
  const auto state_id = Add(1, 1, Type::kWrite);
  EXPECT_TRUE(Reported(1)) << "the holder itself";
  EXPECT_FALSE(Reported(2));
  EXPECT_FALSE(Reported(3));
  EXPECT_THAT(asked_, SizeIs(1));
  int answers = 0;
  table_.Await(awaited_[0], [&] { ++answers; });
  holders_.SetReported(state_id, {.change = 7, .size = 5, .time_modify = {}}, now_);
  EXPECT_EQ(answers, 1);
  EXPECT_TRUE(Reported(2));
  EXPECT_EQ(values_.change, 7u);
  EXPECT_EQ(values_.size, 5u);
  now_ += HolderValues::kAskedFor;
  EXPECT_FALSE(Reported(2));
  EXPECT_THAT(asked_, SizeIs(2));
  table_.Await(awaited_[0], [&] { ++answers; });
  table_.Remove(state_id);
  EXPECT_EQ(answers, 2);
  EXPECT_TRUE(Reported(2));
}

TEST_F(HolderValuesTest, AnAnswerThatWasNotAskedForIsIgnored) {
  const auto state_id = Add(1, 1, Type::kWrite);
  holders_.SetReported(state_id, {.change = 7, .size = {}, .time_modify = {}}, now_);
  EXPECT_FALSE(Reported(2));
  EXPECT_THAT(asked_, SizeIs(1));
}

}  // namespace
}  // namespace dafs::server
