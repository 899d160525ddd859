// When a promise of the server still holds.
#include "client/state/promises.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "wire/protocol/header.h"

namespace dafs::client {
namespace {

wire::FileHandle Handle(uint8_t number) {
  wire::FileHandle handle;
  handle.fileid.bytes[0] = number;
  return handle;
}

class PromisesTest : public ::testing::Test {
 protected:
  void Begin() {
    promises_.Ask();
    EXPECT_TRUE(promises_.Begin(absl::Seconds(10)));
  }
  // The promise of an answer whose request is sent now.
  Promise Asked() {
    return promises_.Given(promises_.sequence(), wire::kSpcondAttributes, wire::kSpcondAttributes);
  }

  Promises promises_;
  const wire::FileHandle file_ = Handle(1);
};

TEST_F(PromisesTest, NothingIsGoodBeforeTheServerGrantsPromises) {
  EXPECT_FALSE(promises_.offered());
  const Promise before = Asked();
  EXPECT_TRUE(before);
  EXPECT_FALSE(promises_.IsGood(before, file_));
  promises_.Ask();
  EXPECT_TRUE(promises_.offered());
  EXPECT_FALSE(promises_.active());
  const Promise during = Asked();
  EXPECT_FALSE(promises_.IsGood(during, file_));
  EXPECT_TRUE(promises_.Begin(absl::Seconds(10)));
  EXPECT_TRUE(promises_.active());
  // PROMISES ended what the server had promised before it.
  EXPECT_FALSE(promises_.IsGood(before, file_));
  EXPECT_FALSE(promises_.IsGood(during, file_));
  EXPECT_TRUE(promises_.IsGood(Asked(), file_));
}

TEST_F(PromisesTest, AnswerWithoutTheBitIsNoPromise) {
  Begin();
  const uint64_t asked = promises_.sequence();
  EXPECT_FALSE(promises_.Given(asked, wire::kSpcondNames, wire::kSpcondAttributes));
  EXPECT_FALSE(promises_.Given(asked, 0, wire::kSpcondNames));
  EXPECT_TRUE(promises_.Given(asked, wire::kSpcondNames, wire::kSpcondNames));
  EXPECT_TRUE(
      promises_.Given(asked, wire::kSpcondNames | wire::kSpcondOnlyClients, wire::kSpcondNames)
          .only_clients);
  EXPECT_FALSE(promises_.IsGood(Promise(), file_));
}

TEST_F(PromisesTest, AnswerOlderThanAChangeIsNotGood) {
  Begin();
  const Promise old = Asked();
  const Promise other = Asked();
  EXPECT_TRUE(promises_.IsGood(old, file_));
  promises_.Changed(file_);
  EXPECT_FALSE(promises_.IsGood(old, file_));
  EXPECT_TRUE(promises_.IsGood(other, Handle(2)));
  EXPECT_TRUE(promises_.IsGood(Asked(), file_));
}

TEST_F(PromisesTest, ObjectsWithEqualHashesOnlyLosePromises) {
  Begin();
  const Promise old = Asked();
  // More objects than entries: each entry has changed, whatever the hash function is.
  for (int i = 0; i < 1 << 16; ++i) {
    wire::FileHandle other;
    other.fileid.bytes[2] = static_cast<uint8_t>(i);
    other.fileid.bytes[3] = static_cast<uint8_t>(i >> 8);
    promises_.Changed(other);
  }
  EXPECT_FALSE(promises_.IsGood(old, file_));
  EXPECT_TRUE(promises_.IsGood(Asked(), file_));
}

TEST_F(PromisesTest, EndIsFinalForEarlierAnswers) {
  Begin();
  const Promise old = Asked();
  promises_.End();
  EXPECT_FALSE(promises_.active());
  EXPECT_TRUE(promises_.offered());
  EXPECT_FALSE(promises_.IsGood(old, file_));
  EXPECT_FALSE(promises_.IsGood(Asked(), file_));
  const Promise between = Asked();
  Begin();
  EXPECT_FALSE(promises_.IsGood(old, file_));
  EXPECT_FALSE(promises_.IsGood(between, file_));
  EXPECT_TRUE(promises_.IsGood(Asked(), file_));
}

TEST_F(PromisesTest, RefusedPromisesLeaveCachingToTime) {
  Begin();
  promises_.Ask();
  promises_.Refuse();
  EXPECT_FALSE(promises_.offered());
  EXPECT_FALSE(promises_.active());
  EXPECT_EQ(promises_.caching(), Promises::Caching::kTimed);
}

TEST_F(PromisesTest, VoidIsReportedOnceForEachRequestForPromises) {
  int voids = 0;
  promises_.OnVoid([&voids] { ++voids; });
  Begin();
  const Promise old = Asked();
  promises_.Heard(wire::kSpcondVoid);
  EXPECT_FALSE(promises_.IsGood(old, file_));
  promises_.Void();
  EXPECT_EQ(voids, 1);
  Begin();
  promises_.Void();
  EXPECT_EQ(voids, 2);
  EXPECT_EQ(promises_.counts().voids, 2u);
}

TEST_F(PromisesTest, VoidWhileTheServerDecidesPreventsTheBegin) {
  promises_.Ask();
  promises_.Void();
  EXPECT_FALSE(promises_.Begin(absl::Seconds(10)));
  EXPECT_FALSE(promises_.active());
  Begin();
  EXPECT_TRUE(promises_.active());
}

TEST_F(PromisesTest, CachingIsExactIfOnlyClientsChangeTheExport) {
  EXPECT_EQ(promises_.caching(), Promises::Caching::kTimed);
  Begin();
  EXPECT_EQ(promises_.caching(), Promises::Caching::kBounded);
  promises_.Heard(wire::kSpcondNames | wire::kSpcondOnlyClients);
  EXPECT_EQ(promises_.caching(), Promises::Caching::kExact);
  promises_.Heard(wire::kSpcondFailover);  // no promise
  EXPECT_EQ(promises_.caching(), Promises::Caching::kExact);
  promises_.Heard(wire::kSpcondAttributes);
  EXPECT_EQ(promises_.caching(), Promises::Caching::kBounded);
}

// A reader records what it caches and then asks IsGood; the other thread announces the change and
// then looks for it. One of the two must notice.
TEST_F(PromisesTest, ReaderOrAnnouncerNoticesEachRace) {
  Begin();
  constexpr int kRounds = 2000;
  std::atomic<int> cached{0};    // the round that the reader has recorded
  std::atomic<int> asked{0};     // the round whose request is sent
  std::atomic<int> good{0};      // the latest round that was good
  std::atomic<int> finished{0};  // by the reader
  std::thread reader([&] {
    for (int round = 1; round <= kRounds; ++round) {
      const Promise promise = Asked();
      asked.store(round);
      cached.store(round);
      if (promises_.IsGood(promise, file_)) good.store(round);
      finished.store(round);
      while (asked.load() == round) std::this_thread::yield();
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    while (asked.load() < round) std::this_thread::yield();
    promises_.Changed(file_);
    const bool found = cached.load() == round;
    while (finished.load() < round) std::this_thread::yield();
    EXPECT_TRUE(found || good.load() != round) << "round " << round;
    asked.store(0);
  }
  reader.join();
}

}  // namespace
}  // namespace dafs::client
