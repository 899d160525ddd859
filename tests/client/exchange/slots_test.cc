// Request slots: credits, the order in which coroutines get slots, and the match of responses.
#include "client/exchange/slots.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs::client {
namespace {

using ::testing::ElementsAre;

// A coroutine that takes slots and keeps them.
struct Taker {
  bool resumed = false;
  absl::Status status;
  std::vector<uint16_t> indices;
};

Task<void> Take(Slots& slots, size_t count, absl::Time deadline, Taker* taker) {
  Slots::Taking taking(slots, count, deadline);
  taker->status = co_await taking;
  taker->indices.assign(taking.indices().begin(), taking.indices().end());
  taker->resumed = true;
}

class SlotsTest : public ::testing::Test {
 protected:
  Taker& StartTaking(size_t count, absl::Time deadline = absl::InfiniteFuture()) {
    takers_.push_back(std::make_unique<Taker>());
    Start(Take(slots_, count, deadline, takers_.back().get()));
    return *takers_.back();
  }
  // The response to the request in slot `index` arrives.
  wire::ResponseHeader HeaderFor(uint16_t index) {
    wire::ResponseHeader header;
    header.stream_id = index;
    header.seq_number = slots_[index].seq_number;
    header.analyzer =
        wire::OpaqueFromUint64<wire::Analyzer>(uint64_t{slots_[index].generation} << 32 | index);
    return header;
  }
  void ReleaseAll() {
    for (const auto& taker : takers_) {
      if (!taker->resumed || !taker->status.ok()) continue;
      for (const uint16_t index : std::exchange(taker->indices, {})) slots_.Release(slots_[index]);
    }
  }

  dat::Address peer_;
  Slots slots_{70, peer_};
  std::vector<std::unique_ptr<Taker>> takers_;
};

TEST_F(SlotsTest, TakesNoMoreThanCredits) {
  EXPECT_TRUE(absl::IsResourceExhausted(StartTaking(2).status));  // one credit before a grant
  slots_.credits().Grant(3);
  EXPECT_EQ(slots_.desired_nreq(), 0u);
  EXPECT_THAT(StartTaking(2).indices, ElementsAre(0, 1));
  EXPECT_TRUE(slots_.MustWait(2));
  EXPECT_FALSE(slots_.MustWait(4));  // it would fail at once
  Taker& waits = StartTaking(2);
  EXPECT_FALSE(waits.resumed);
  EXPECT_EQ(slots_.desired_nreq(), 70u);  // requests more
  EXPECT_FALSE(slots_.ServeFirst());
  slots_.Release(slots_[1]);
  EXPECT_TRUE(slots_.ServeFirst());
  EXPECT_THAT(waits.indices, ElementsAre(1, 2));
  EXPECT_EQ(slots_.taken(), 3u);
}

TEST_F(SlotsTest, HasASlotForEachCreditAtMost) {
  slots_.credits().Grant(65535);
  Taker& first = StartTaking(8);
  std::set<uint16_t> all(first.indices.begin(), first.indices.end());
  for (int i = 0; i < 62; ++i) all.insert(StartTaking(1).indices[0]);
  EXPECT_EQ(all.size(), 70u);
  EXPECT_EQ(*all.rbegin(), 69u);
  EXPECT_FALSE(StartTaking(1).resumed);
  slots_.End(absl::CancelledError("over"));
}

// A waiter that needs many slots is not overtaken by those that need few.
TEST_F(SlotsTest, ServesInOrderOfArrival) {
  slots_.credits().Grant(4);
  StartTaking(3);
  Taker& many = StartTaking(4);
  Taker& few = StartTaking(1);
  EXPECT_FALSE(few.resumed);
  EXPECT_FALSE(slots_.ServeFirst());
  ReleaseAll();
  EXPECT_TRUE(slots_.ServeFirst());
  EXPECT_TRUE(many.resumed);
  EXPECT_FALSE(few.resumed);
  ReleaseAll();
  EXPECT_TRUE(slots_.ServeFirst());
  EXPECT_TRUE(few.resumed);
  EXPECT_FALSE(slots_.ServeFirst());
}

TEST_F(SlotsTest, WaiterFailsWhenCreditsFallBelowItsCount) {
  slots_.credits().Grant(2);
  StartTaking(2);
  Taker& waits = StartTaking(2);
  slots_.credits().NoteResponse(1);
  EXPECT_TRUE(slots_.ServeFirst());
  EXPECT_TRUE(absl::IsResourceExhausted(waits.status)) << waits.status;
}

// Shows DAFS-5.2.2-03: the request on an expired stream uses one of the credits that are left.
TEST_F(SlotsTest, RequestOnAnExpiredStreamCountsAgainstTheNewLimit) {
  slots_.credits().Grant(3);
  EXPECT_THAT(StartTaking(3).indices, ElementsAre(0, 1, 2));
  for (const uint16_t answered : {uint16_t{0}, uint16_t{1}}) {
    slots_.credits().NoteResponse(1);
    slots_.Release(slots_[answered]);
  }
  ASSERT_EQ(slots_.credits().nreq(), 1u);
  Taker& waits = StartTaking(1);  // stream 0 is free, and stream 2 is not answered
  EXPECT_FALSE(waits.resumed);
  EXPECT_FALSE(slots_.ServeFirst());
  slots_.credits().NoteResponse(1);
  slots_.Release(slots_[2]);
  EXPECT_TRUE(slots_.ServeFirst());
  EXPECT_THAT(waits.indices, ElementsAre(0));
}

TEST_F(SlotsTest, EndsOverdueWaitsOnly) {
  const absl::Time now = Loop::Now();
  slots_.credits().Grant(1);
  StartTaking(1);
  Taker& first = StartTaking(1, now + absl::Seconds(2));
  Taker& second = StartTaking(1, now);
  Taker& third = StartTaking(1);
  slots_.EndOverdue(now);
  EXPECT_TRUE(absl::IsDeadlineExceeded(second.status)) << second.status;
  EXPECT_FALSE(first.resumed || third.resumed);
  EXPECT_EQ(slots_.waiting(), 2u);
  slots_.End(absl::CancelledError("over"));
  EXPECT_TRUE(absl::IsCancelled(first.status) && absl::IsCancelled(third.status));
  EXPECT_FALSE(slots_.has_waiters());
}

// WIRE 11.5.
TEST_F(SlotsTest, CreditsFallByOneForEachResponseAndRiseAtOnce) {
  slots_.credits().Grant(5);
  slots_.credits().NoteResponse(2);
  EXPECT_EQ(slots_.credits().nreq(), 4u);
  EXPECT_EQ(slots_.credits().target_nreq(), 2u);
  slots_.credits().NoteDamagedResponse();  // its target is unknown
  EXPECT_EQ(slots_.credits().nreq(), 3u);
  EXPECT_EQ(slots_.credits().target_nreq(), 2u);
  slots_.credits().NoteResponse(9);
  EXPECT_EQ(slots_.credits().nreq(), 9u);
  slots_.credits().Grant(1);
  slots_.credits().NoteDamagedResponse();
  slots_.credits().NoteResponse(0);
  EXPECT_EQ(slots_.credits().nreq(), 1u);  // the last credit stays
}

TEST_F(SlotsTest, SlotIsFreeAfterItsResponseAndItsSend) {
  slots_.credits().Grant(1);
  StartTaking(1);
  Slot& slot = slots_[0];
  slot.expects_answer = slot.sending = true;
  slots_.Release(slot);
  slot.expects_answer = false;
  slots_.Release(slot);
  EXPECT_EQ(slots_.taken(), 1u);
  slot.sending = false;
  slots_.Release(slot);
  EXPECT_EQ(slots_.taken(), 0u);
}

TEST_F(SlotsTest, MatchesAResponseWithItsOwnRequestOnly) {
  slots_.credits().Grant(2);
  StartTaking(2);
  Slot& slot = slots_[1];
  slot.seq_number = 7;
  slot.generation = 3;
  const wire::ResponseHeader good = HeaderFor(1);
  EXPECT_TRUE(absl::IsDataLoss(slots_.Match(good).status()));  // nothing is outstanding
  slot.expects_answer = true;
  ASSERT_TRUE(slots_.Match(good).ok());
  EXPECT_EQ(*slots_.Match(good), &slot);
  wire::ResponseHeader bad = good;
  bad.stream_id = 0;
  EXPECT_FALSE(slots_.Match(bad).ok());
  bad = good;
  bad.seq_number = 6;
  EXPECT_FALSE(slots_.Match(bad).ok());
  bad = good;
  bad.analyzer = wire::OpaqueFromUint64<wire::Analyzer>(uint64_t{2} << 32 | 1);  // an earlier one
  EXPECT_FALSE(slots_.Match(bad).ok());
  bad.analyzer = wire::OpaqueFromUint64<wire::Analyzer>(uint64_t{3} << 32 | 70);  // no slot
  EXPECT_FALSE(slots_.Match(bad).ok());
}

}  // namespace
}  // namespace dafs::client
