// Delegations that have ended, and files whose delegations may not be used. Spec: WIRE 9.7.
#include "client/state/ended_delegations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "client/state/doomed_files.h"

namespace dafs::client {
namespace {

wire::FileHandle FileNumber(uint8_t number) {
  wire::FileHandle file;
  file.fileid.bytes[0] = number;
  return file;
}

DelegationPtr MakeDelegation(uint8_t file, uint64_t state_id) {
  return std::make_shared<Delegation>(1, FileNumber(file),
                                      wire::OpaqueFromUint64<wire::StateId>(state_id),
                                      wire::ClientId(), Identity(), 0);
}

TEST(EndedDelegationsTest, FileHasSomeUntilTheLastIsRemoved) {
  EndedDelegations ended;
  const DelegationPtr one = MakeDelegation(1, 11);
  const DelegationPtr two = MakeDelegation(1, 12);
  ended.Add(one);
  ended.Add(two);
  EXPECT_EQ(ended.Find(two->state_id), two);
  ended.Remove(one);
  EXPECT_EQ(ended.Find(one->state_id), nullptr);
  EXPECT_TRUE(ended.HasAnyOf(FileNumber(1)));
  EXPECT_FALSE(ended.HasAnyOf(FileNumber(2)));
  ended.Remove(two);
  EXPECT_FALSE(ended.HasAnyOf(FileNumber(1)));
}

// The server may grant a delegation again under the state id of one that is being returned.
TEST(EndedDelegationsTest, RemoveLeavesAnotherOfTheSameStateId) {
  EndedDelegations ended;
  const DelegationPtr first = MakeDelegation(1, 11);
  const DelegationPtr again = MakeDelegation(1, 11);
  ended.Add(first);
  ended.Add(again);
  ended.Remove(again);
  EXPECT_EQ(ended.Find(first->state_id), first);
  ended.Remove(first);
  EXPECT_FALSE(ended.HasAnyOf(FileNumber(1)));
}

TEST(EndedDelegationsTest, TakeDueHandsOutEachOnceAndKeepsItAsEnded) {
  EndedDelegations ended;
  const DelegationPtr due = MakeDelegation(1, 11);
  ended.Add(due);
  EXPECT_FALSE(ended.any_due());
  ended.MakeDue(due);
  EXPECT_TRUE(ended.any_due());
  EXPECT_THAT(ended.TakeDue(), testing::ElementsAre(due));
  EXPECT_THAT(ended.TakeDue(), testing::IsEmpty());
  EXPECT_EQ(ended.Find(due->state_id), due);
}

TEST(DoomedFilesTest, OnlyDelegationsThatWereRequestedLaterMayBeUsed) {
  DoomedFiles doomed;
  EXPECT_TRUE(doomed.MayUse(FileNumber(1), 0));
  doomed.Doom(FileNumber(1), 5);
  EXPECT_FALSE(doomed.MayUse(FileNumber(1), 4));
  EXPECT_TRUE(doomed.MayUse(FileNumber(1), 5));
}

}  // namespace
}  // namespace dafs::client
