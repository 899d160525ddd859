// Promises: which calls a change needs, when promises are given and end, and threads that read and
// change at random against clients that cache what they were promised.
#include "server/store/holdings/promises/promises.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace dafs::server {
namespace {

using Changing = Promises::Changing;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint8_t kBoth = kPromisedNames | kPromisedAttributes;

ObjectKey Key(uint64_t number) {
  ObjectKey key;
  std::memcpy(key.bytes.data() + 18, &number, sizeof(number));
  return key;
}

wire::ClientId Id(uint64_t number) { return wire::OpaqueFromUint64<wire::ClientId>(number); }

class PromisesTest : public testing::Test {
 protected:
  Promisee Admit(uint64_t id, uint32_t most = 1000, Promises* promises = nullptr) {
    uint32_t granted = 0;
    return (promises != nullptr ? promises : &promises_)
        ->Admit(Id(id), "client" + std::to_string(id), most, &granted);
  }
  void Drop(const std::vector<Promises::Call>& calls) {
    for (const Promises::Call& call : calls) promises_.Dropped(call);
  }
  // A whole change by `by`. Returns the calls that it needed.
  std::vector<Promises::Call> Change(const ObjectKey& key, Promisee by, uint8_t what,
                                     std::string_view name = {}) {
    Changing changing(promises_, by);
    std::vector<Promises::Call> all;
    while (!changing.Begin(key, what, name)) {
      const std::vector<Promises::Call> calls = changing.TakeCalls();
      Drop(calls);
      all.insert(all.end(), calls.begin(), calls.end());
    }
    return all;
  }

  Promises promises_;
  const ObjectKey directory_ = Key(1), file_ = Key(2);
  const Promisee a_ = Admit(1), b_ = Admit(2);
};

TEST_F(PromisesTest, AChangeCallsTheOtherHoldersOfWhatChanges) {
  const Promisee c = Admit(3);
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), kPromisedAttributes);
  EXPECT_EQ(promises_.Give(file_, b_, kPromisedAttributes), kPromisedAttributes);
  EXPECT_EQ(promises_.Give(directory_, c, kBoth), kBoth);

  const auto calls = Change(file_, a_, kPromisedAttributes);
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].holder, b_);
  EXPECT_EQ(calls[0].key, file_);
  EXPECT_EQ(calls[0].what, kPromisedAttributes);
  EXPECT_EQ(calls[0].name, "");
  // b has answered; a, which changed it, was not called and is still a holder.
  EXPECT_THAT(Change(file_, b_, kPromisedAttributes), SizeIs(1));
  EXPECT_THAT(Change(file_, 0, kBoth), IsEmpty());
}

TEST_F(PromisesTest, OnlyWhatChangesIsCalledAndEnds) {
  promises_.Give(directory_, a_, kBoth);
  auto calls = Change(directory_, b_, kPromisedAttributes, "ignored");
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].what, kPromisedAttributes);
  EXPECT_EQ(calls[0].name, "");
  calls = Change(directory_, b_, kBoth);
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].what, kPromisedNames);
}

TEST_F(PromisesTest, NothingIsGivenWhileTheKeyIsMarked) {
  {
    Changing changing(promises_, a_);
    EXPECT_TRUE(changing.Begin(directory_, kPromisedNames, "x"));
    EXPECT_EQ(promises_.Give(directory_, b_, kBoth), 0);
    EXPECT_EQ(promises_.Give(directory_, a_, kBoth), 0);
    EXPECT_EQ(promises_.Give(file_, b_, kBoth), kBoth);
  }
  EXPECT_EQ(promises_.Give(directory_, b_, kBoth), kBoth);
}

TEST_F(PromisesTest, ANamedCallLeavesTheOtherNames) {
  promises_.Give(directory_, a_, kBoth);
  auto calls = Change(directory_, b_, kBoth, "x");
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].what, kBoth);
  EXPECT_EQ(calls[0].name, "x");
  calls = Change(directory_, b_, kBoth, "y");
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].what, kPromisedNames);
  EXPECT_EQ(calls[0].name, "y");
}

TEST_F(PromisesTest, AnIdleHolderIsCalledForEightNamesAndOnceForAll) {
  promises_.Give(directory_, a_, kPromisedNames);
  const auto name_of_call = [&](int i) {
    const auto calls = Change(directory_, b_, kPromisedNames, "name" + std::to_string(i));
    return calls.empty() ? std::string("none") : calls[0].name;
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(name_of_call(i), "name" + std::to_string(i));
  promises_.Give(directory_, a_, kPromisedNames);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(name_of_call(i), "name" + std::to_string(i));
  EXPECT_EQ(name_of_call(8), "");
  EXPECT_EQ(name_of_call(9), "none");
}

TEST_F(PromisesTest, ASecondPassRepeatsNoCallButMakesNewOnes) {
  const Promisee c = Admit(3);
  const ObjectKey replaced = Key(3);
  promises_.Give(directory_, b_, kPromisedNames);
  promises_.Give(replaced, c, kPromisedAttributes);
  Changing changing(promises_, a_);
  EXPECT_FALSE(changing.Begin(directory_, kBoth, "x"));
  EXPECT_FALSE(changing.Begin(file_, kPromisedAttributes));
  Drop(changing.TakeCalls());
  EXPECT_TRUE(changing.Begin(directory_, kBoth, "x"));
  EXPECT_FALSE(changing.Begin(replaced, kPromisedAttributes));
  const auto calls = changing.TakeCalls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].holder, c);
  Drop(calls);
  EXPECT_TRUE(changing.Begin(directory_, kBoth, "x"));
  EXPECT_TRUE(changing.Begin(replaced, kPromisedAttributes));
}

TEST_F(PromisesTest, ARenameWithinADirectoryCallsForBothNames) {
  promises_.Give(directory_, b_, kPromisedNames);
  Changing changing(promises_, a_);
  EXPECT_FALSE(changing.Begin(directory_, kBoth, "from"));
  EXPECT_FALSE(changing.Begin(directory_, kBoth, "to"));
  const auto calls = changing.TakeCalls();
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_EQ(calls[0].name, "from");
  EXPECT_EQ(calls[1].name, "to");
  Drop(calls);
  EXPECT_TRUE(changing.Begin(directory_, kBoth, "from"));
  EXPECT_TRUE(changing.Begin(directory_, kBoth, "to"));
}

TEST_F(PromisesTest, TwoChangersBothWaitForAHolder) {
  const Promisee c = Admit(3);
  promises_.Give(file_, c, kPromisedAttributes);
  Changing first(promises_, a_), second(promises_, b_);
  EXPECT_FALSE(first.Begin(file_, kPromisedAttributes));
  EXPECT_FALSE(second.Begin(file_, kPromisedAttributes));
  Drop(first.TakeCalls());
  EXPECT_TRUE(first.Begin(file_, kPromisedAttributes));
  // Its answer to the second call is still missing, and both marks are set.
  EXPECT_EQ(promises_.Give(file_, c, kPromisedAttributes), 0);
  EXPECT_THAT(second.TakeCalls(), SizeIs(1));
  EXPECT_EQ(promises_.GetCounts().promises, 1);
}

TEST_F(PromisesTest, AnAnswerThatComesAfterItsRequestHasEndedEndsNoNewPromise) {
  promises_.Give(file_, a_, kPromisedAttributes);
  std::vector<Promises::Call> calls;
  {
    Changing lost(promises_, b_);
    EXPECT_FALSE(lost.Begin(file_, kPromisedAttributes));
    calls = lost.TakeCalls();
  }
  // The holder may have answered and asked again, but its answer is still on the way.
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), 0);
  Drop(calls);
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), kPromisedAttributes);
  EXPECT_THAT(Change(file_, b_, kPromisedAttributes), SizeIs(1));
}

TEST_F(PromisesTest, CallsThatWereNotTakenNeedNoAnswer) {
  promises_.Give(file_, a_, kPromisedAttributes);
  {
    Changing lost(promises_, b_);
    EXPECT_FALSE(lost.Begin(file_, kPromisedAttributes));
  }
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), kPromisedAttributes);
  EXPECT_THAT(Change(file_, b_, kPromisedAttributes), SizeIs(1));
}

TEST_F(PromisesTest, AFileOpenForWritingHasItsAttributesPromisedToItsWriterOnly) {
  promises_.OpenedToWrite(file_, Id(1));
  promises_.OpenedToWrite(file_, Id(1));
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), kPromisedAttributes);
  EXPECT_EQ(promises_.Give(file_, b_, kBoth), kPromisedNames);
  EXPECT_EQ(promises_.Give(file_, b_, kPromisedAttributes), 0);
  promises_.OpenedToWrite(file_, Id(77));  // a client without promises
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), 0);
  promises_.ClosedToWrite(file_, Id(77));
  promises_.ClosedToWrite(file_, Id(1));
  EXPECT_EQ(promises_.Give(file_, b_, kPromisedAttributes), 0);
  promises_.ClosedToWrite(file_, Id(1));
  EXPECT_EQ(promises_.Give(file_, b_, kPromisedAttributes), kPromisedAttributes);
  promises_.ClosedToWrite(file_, Id(1));  // once too often: nothing
}

TEST_F(PromisesTest, KeepGivesTheNamesToARequesterThatWasAlone) {
  Changing changing(promises_, a_);
  changing.Begin(directory_, kBoth, "x");
  changing.Begin(file_, kPromisedAttributes);
  EXPECT_TRUE(changing.Keep());
  const auto calls = Change(directory_, b_, kBoth, "x");
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].holder, a_);
  EXPECT_EQ(calls[0].what, kPromisedNames);
  EXPECT_THAT(Change(file_, b_, kPromisedAttributes), IsEmpty());
}

TEST_F(PromisesTest, KeepGivesNothingIfAnotherRequestChangedTheDirectoryMeanwhile) {
  std::optional<Changing> first(std::in_place, promises_, a_);
  first->Begin(directory_, kBoth, "x");
  {
    Changing second(promises_, b_);
    EXPECT_TRUE(second.Begin(directory_, kBoth, "x"));
    EXPECT_FALSE(second.Keep());
  }
  EXPECT_FALSE(first->Keep());
  EXPECT_EQ(promises_.GetCounts().promises, 0);
  // The next one is alone again.
  Changing third(promises_, b_);
  third.Begin(directory_, kBoth, "x");
  EXPECT_TRUE(third.Keep());
}

TEST_F(PromisesTest, KeepOfAClientWithoutPromisesGivesNone) {
  Changing changing(promises_, 0);
  changing.Begin(directory_, kBoth, "x");
  EXPECT_FALSE(changing.Keep());
  EXPECT_EQ(promises_.Give(directory_, a_, kBoth), kBoth);
}

TEST_F(PromisesTest, AVoidClientHasNoPromiseUntilItIsAdmittedAgain) {
  promises_.Give(file_, a_, kPromisedAttributes);
  EXPECT_FALSE(promises_.IsVoid(a_));
  EXPECT_TRUE(promises_.Void(a_));
  EXPECT_FALSE(promises_.Void(a_));
  EXPECT_TRUE(promises_.IsVoid(a_));
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), 0);
  EXPECT_THAT(Change(file_, b_, kPromisedAttributes), IsEmpty());
  EXPECT_EQ(Admit(1), a_);
  EXPECT_FALSE(promises_.IsVoid(a_));
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), kPromisedAttributes);
  EXPECT_EQ(promises_.GetCounts().voided, 1);
}

TEST_F(PromisesTest, AnOverdueClientGetsNoPromiseButIsCalled) {
  promises_.Give(file_, a_, kPromisedAttributes);
  EXPECT_EQ(promises_.OverdueSince(a_), absl::InfiniteFuture());
  const absl::Time since = absl::UnixEpoch() + absl::Seconds(5);
  promises_.Overdue(a_, since);
  promises_.Overdue(a_, since + absl::Seconds(1));
  EXPECT_EQ(promises_.OverdueSince(a_), since);
  EXPECT_TRUE(promises_.IsVoid(a_));
  EXPECT_EQ(promises_.Give(directory_, a_, kBoth), 0);
  EXPECT_THAT(Change(file_, b_, kPromisedAttributes), SizeIs(1));
  EXPECT_EQ(Admit(1), a_);
  EXPECT_FALSE(promises_.IsVoid(a_));
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), kPromisedAttributes);
}

TEST_F(PromisesTest, AdmissionEndsEarlierPromisesAndCalls) {
  promises_.Give(file_, a_, kPromisedAttributes);
  Changing changing(promises_, b_);
  EXPECT_FALSE(changing.Begin(file_, kPromisedAttributes));
  const auto old_calls = changing.TakeCalls();
  changing.Keep();
  Admit(1);
  EXPECT_EQ(promises_.GetCounts().promises, 0);
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), kPromisedAttributes);
  Changing next(promises_, b_);
  EXPECT_FALSE(next.Begin(file_, kPromisedAttributes));
  Drop(old_calls);
  EXPECT_EQ(promises_.GetCounts().promises, 1);
  Drop(next.TakeCalls());
  EXPECT_EQ(promises_.GetCounts().promises, 0);
}

TEST_F(PromisesTest, AForgottenNumberIsNotUsedAgain) {
  promises_.Give(file_, a_, kPromisedAttributes);
  promises_.Forget(Id(1));
  EXPECT_TRUE(promises_.IsVoid(a_));
  EXPECT_EQ(promises_.GetCounts().promises, 0);
  const Promisee other = Admit(5);
  EXPECT_NE(other, a_);
  EXPECT_NE(Admit(1), a_);
  EXPECT_EQ(promises_.Give(file_, a_, kPromisedAttributes), 0);
  EXPECT_FALSE(promises_.Void(a_));
  EXPECT_FALSE(promises_.IsVoid(other));
}

TEST_F(PromisesTest, AServerWithoutPromisesAdmitsNoClient) {
  Promises none({.of_client = 0});
  uint32_t granted = 9;
  EXPECT_EQ(none.Admit(Id(1), "client1", 100, &granted), 0);
  EXPECT_EQ(granted, 0);
  EXPECT_EQ(none.Give(file_, 0, kBoth), 0);
  EXPECT_FALSE(none.IsVoid(0));
  // The instance before it may have given some.
  none.SetReturning({"client1"});
  Changing changing(none, 0, "client2");
  EXPECT_FALSE(changing.Begin(file_, kBoth));
  EXPECT_TRUE(changing.awaits_return());
  none.EndReturning();
  EXPECT_TRUE(changing.Begin(file_, kBoth));
  EXPECT_FALSE(changing.Keep());
}

TEST(PromiseLimits, ACrowdedClientGetsRoomByItsOldestPromises) {
  Promises promises({.of_client = 256});
  std::vector<Promisee> crowded;
  promises.SetOnCrowded([&](Promisee client) { crowded.push_back(client); });
  uint32_t granted = 0;
  const Promisee client = promises.Admit(Id(1), "client1", 1000, &granted);
  EXPECT_EQ(granted, 256);
  for (uint64_t i = 0; i < 239; ++i) ASSERT_NE(promises.Give(Key(i), client, kBoth), 0);
  EXPECT_THAT(crowded, IsEmpty());
  for (uint64_t i = 239; i < 256; ++i) ASSERT_NE(promises.Give(Key(i), client, kBoth), 0);
  EXPECT_THAT(crowded, ElementsAre(client));
  EXPECT_EQ(promises.Give(Key(1000), client, kBoth), 0);
  EXPECT_EQ(promises.GetCounts().refused, 1);

  // In use: of each shard these stay before the others.
  for (uint64_t i = 0; i < 16; ++i) EXPECT_EQ(promises.Give(Key(i), client, kBoth), kBoth);
  size_t ended = 0;
  for (auto calls = promises.PickToEnd(client, 8); !calls.empty();
       calls = promises.PickToEnd(client, 8)) {
    EXPECT_LE(calls.size(), 8);
    for (const Promises::Call& call : calls) {
      EXPECT_EQ(call.what, kBoth);
      EXPECT_EQ(promises.Give(call.key, client, kBoth), 0);
      promises.Dropped(call);
      ++ended;
    }
  }
  EXPECT_EQ(ended, 32);
  EXPECT_EQ(promises.GetCounts().promises, 256 - 32);
  EXPECT_THAT(crowded, ElementsAre(client));
  for (uint64_t i = 1000; i < 1032; ++i) ASSERT_NE(promises.Give(Key(i), client, kBoth), 0);
  EXPECT_THAT(crowded, ElementsAre(client, client));
}

TEST(PromiseLimits, TheClientWithTheMostMakesRoomForAll) {
  Promises promises({.of_client = 256, .of_all = 320});
  std::vector<Promisee> crowded;
  promises.SetOnCrowded([&](Promisee client) { crowded.push_back(client); });
  uint32_t granted = 0;
  const Promisee large = promises.Admit(Id(1), "client1", 1000, &granted);
  const Promisee small = promises.Admit(Id(2), "client2", 1000, &granted);
  for (uint64_t i = 0; i < 230; ++i) ASSERT_NE(promises.Give(Key(i), large, kBoth), 0);
  for (uint64_t i = 0; i < 90; ++i) ASSERT_NE(promises.Give(Key(i), small, kBoth), 0);
  EXPECT_EQ(promises.Give(Key(90), small, kBoth), 0);
  EXPECT_THAT(crowded, ElementsAre(large));
  EXPECT_THAT(promises.PickToEnd(small), IsEmpty());
  for (auto calls = promises.PickToEnd(large); !calls.empty(); calls = promises.PickToEnd(large)) {
    for (const Promises::Call& call : calls) promises.Dropped(call);
  }
  EXPECT_EQ(promises.Give(Key(90), small, kBoth), kBoth);
}

TEST_F(PromisesTest, ACallForEverythingEndsAllPromisesOfEachClient) {
  promises_.Give(file_, a_, kPromisedAttributes);
  promises_.Give(directory_, a_, kBoth);
  Changing changing(promises_, b_);
  EXPECT_FALSE(changing.Begin(file_, kPromisedAttributes));
  const auto unanswered = changing.TakeCalls();
  changing.Keep();
  const auto calls = promises_.CallAll();
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_EQ(calls[0].what, kPromisedAll);
  EXPECT_EQ(promises_.Give(Key(9), a_, kBoth), 0);
  Drop(calls);
  EXPECT_THAT(Change(directory_, b_, kBoth), IsEmpty());
  EXPECT_EQ(promises_.Give(directory_, a_, kBoth), kBoth);
  EXPECT_EQ(promises_.Give(file_, a_, kBoth), 0);  // its answer is still missing
  Drop(unanswered);
  EXPECT_EQ(promises_.Give(file_, a_, kBoth), kBoth);
}

TEST_F(PromisesTest, AChangeWaitsForClientsThatHadPromisesBeforeTheRestart) {
  promises_.SetReturning({"client1", "client2", "client3"});
  Changing changing(promises_, b_, "client2");
  EXPECT_FALSE(changing.Begin(file_, kPromisedAttributes));
  EXPECT_TRUE(changing.awaits_return());
  EXPECT_THAT(changing.TakeCalls(), IsEmpty());
  int returned = 0;
  promises_.AwaitReturn("client2", [&] { ++returned; });
  Admit(1);
  EXPECT_EQ(returned, 0);
  EXPECT_FALSE(changing.Begin(file_, kPromisedAttributes));
  promises_.Returned("client3");
  EXPECT_EQ(returned, 1);  // it does not wait for its own client
  EXPECT_TRUE(changing.Begin(file_, kPromisedAttributes));
  EXPECT_FALSE(changing.awaits_return());

  Changing other(promises_, 0, "client9");
  EXPECT_FALSE(other.Begin(file_, kPromisedAttributes));
  promises_.AwaitReturn("client9", [&] { ++returned; });
  EXPECT_THAT(promises_.EndReturning(), ElementsAre("client2"));
  EXPECT_EQ(returned, 2);
  EXPECT_TRUE(other.Begin(file_, kPromisedAttributes));
  promises_.AwaitReturn("client9", [&] { ++returned; });
  EXPECT_EQ(returned, 3);
}

TEST_F(PromisesTest, AReclaimDoesNotWaitForOtherClientsToReturn) {
  promises_.SetReturning({"client1"});
  promises_.Give(file_, a_, kPromisedAttributes);
  Changing changing(promises_, b_, "client2");
  changing.SkipReturn();
  EXPECT_FALSE(changing.Begin(file_, kPromisedAttributes));
  EXPECT_THAT(changing.TakeCalls(), SizeIs(1));  // it has been promised since
  EXPECT_FALSE(changing.awaits_return());
}

// --- Memory ---

// Sanitizers have their own allocator, of which mallinfo2 knows nothing.
size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Gives `count` promises in all. With `shares` all clients hold those about the same objects.
double BytesOfPromise(size_t count, size_t clients, bool shares) {
  Promises promises({.of_client = UINT32_MAX});
  const size_t before = AllocatedBytes();
  uint32_t granted = 0;
  for (size_t c = 0; c < clients; ++c) {
    const Promisee client = promises.Admit(Id(c + 1), "client", UINT32_MAX, &granted);
    for (size_t i = 0; i < count / clients; ++i) {
      promises.Give(Key(shares ? i : c * count + i), client, kBoth);
    }
  }
  EXPECT_EQ(promises.GetCounts().promises, count);
  return static_cast<double>(AllocatedBytes() - before) / static_cast<double>(count);
}

TEST(PromiseMemory, AMillionPromisesTakeLessThanAHundredBytesEach) {
  if (AllocatedBytes() == 0) GTEST_SKIP() << "the allocator does not report its memory";
  constexpr size_t kCount = 1000000;
  struct {
    const char* name;
    size_t clients;
    bool shares;
  } const kCases[] = {
      {"1 client", 1, false}, {"10 clients", 10, false}, {"10 clients, same objects", 10, true}};
  for (const auto& one : kCases) {
    const double bytes = BytesOfPromise(kCount, one.clients, one.shares);
    RecordProperty(one.name, std::to_string(bytes));
    EXPECT_LE(bytes, 100) << one.name;
    std::printf("%s: %.1f bytes for a promise\n", one.name, bytes);
  }
}

// --- Threads ---

// An object of the model: its attributes, and what its names lead to, are versions.
constexpr size_t kAttributes = 0;
constexpr size_t kNames = 4;
constexpr size_t kSlots = 1 + kNames;
constexpr size_t kObjects = 24;

// The cache of a client that believes its promises, as in WIRE 9.6.
class CachingClient {
 public:
  CachingClient(Promises& promises, uint64_t id) : promises_(promises), id_(Id(id)) { Admit(); }

  Promisee promisee() const { return promisee_; }
  const wire::ClientId& id() const { return id_; }

  // To be taken before a request is sent; its answer is kept only if nothing has ended meanwhile.
  struct Asked {
    uint64_t changed = 0;
    uint64_t admission = 0;
  };
  Asked Ask(size_t object) {
    absl::MutexLock lock(&mutex_);
    return {changed_[object], admission_};
  }
  void Store(size_t object, size_t slot, uint64_t version, const Asked& asked) {
    absl::MutexLock lock(&mutex_);
    if (!active_ || asked.changed != changed_[object] || asked.admission != admission_) return;
    cache_[object][slot] = version;
    ++stored_;
  }
  void Forget(size_t object, size_t slot) {
    absl::MutexLock lock(&mutex_);
    ++changed_[object];
    cache_[object][slot].reset();
  }
  void Changed(size_t object, uint8_t what, const std::string& name) {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < kObjects; ++i) {
      if (what != kPromisedAll && i != object) continue;
      ++changed_[i];
      for (size_t slot = 0; slot < kSlots; ++slot) {
        const uint8_t of_slot = slot == kAttributes ? kPromisedAttributes : kPromisedNames;
        if (what != kPromisedAll && (what & of_slot) == 0) continue;
        if (slot != kAttributes && !name.empty() && name != std::to_string(slot)) continue;
        cache_[i][slot].reset();
      }
    }
  }
  bool Has(size_t object, size_t slot) {
    absl::MutexLock lock(&mutex_);
    return cache_[object][slot].has_value();
  }
  uint64_t stored() {
    absl::MutexLock lock(&mutex_);
    return stored_;
  }

  // The client has been silent: it trusts nothing any more by the time the server voids it.
  void BecomeVoid() {
    absl::MutexLock turn(&admitting_);
    {
      absl::MutexLock lock(&mutex_);
      active_ = false;
      for (auto& object : cache_) object = {};
    }
    promises_.Void(promisee_);
    Admit();
  }

 private:
  void Admit() {
    uint32_t granted = 0;
    promisee_ = promises_.Admit(id_, "client", 20, &granted);
    absl::MutexLock lock(&mutex_);
    active_ = true;
    ++admission_;
  }

  Promises& promises_;
  const wire::ClientId id_;
  std::atomic<Promisee> promisee_{0};
  absl::Mutex admitting_;
  absl::Mutex mutex_;
  bool active_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t admission_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t stored_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<uint64_t, kObjects> changed_ ABSL_GUARDED_BY(mutex_) = {};
  std::array<std::array<std::optional<uint64_t>, kSlots>, kObjects> cache_ ABSL_GUARDED_BY(mutex_);
};

class PromisesOfThreads : public testing::Test {
 protected:
  static constexpr size_t kClients = 4;
  static constexpr size_t kThreads = 4;
  static constexpr int kSteps = 25000;  // of each thread

  PromisesOfThreads() {
    for (size_t i = 0; i < kClients; ++i) {
      clients_.push_back(std::make_unique<CachingClient>(promises_, i + 1));
    }
  }

  // The holders receive the calls.
  void Deliver(const std::vector<Promises::Call>& calls) {
    for (const Promises::Call& call : calls) {
      for (auto& client : clients_) {
        if (client->promisee() != call.holder) continue;
        uint64_t object = 0;
        std::memcpy(&object, call.key.bytes.data() + 18, sizeof(object));
        client->Changed(object, call.what, call.name);
      }
    }
  }
  // The server receives the answers.
  void Answer(const std::vector<Promises::Call>& calls) {
    for (const Promises::Call& call : calls) promises_.Dropped(call);
  }
  void DeliverAndAnswerLater(const std::vector<Promises::Call>& calls) {
    Deliver(calls);
    late_answers_.Add(calls);
  }

  // Requests of one thread that have begun: their steps alternate with those of other requests.
  struct Reading {
    CachingClient* client;
    size_t object, slot;
    CachingClient::Asked asked;
    uint64_t version;
  };
  struct Modification {
    CachingClient* by;
    size_t object, slot;
    bool opens;  // for writing
    std::string name;
    CachingClient::Asked asked;
    std::unique_ptr<Changing> changing;
    std::vector<Promises::Call> calls;
  };
  struct Opening {
    CachingClient* by;
    size_t object;
  };
  struct Thread {
    std::mt19937 random;
    std::vector<Reading> readings;
    std::vector<Modification> modifications;
    std::vector<Opening> openings;
  };
  static constexpr size_t kAtOnce = 6;  // of each kind

  template <class T>
  static std::optional<T> TakeAny(std::vector<T>& all, std::mt19937& random) {
    if (all.empty()) return std::nullopt;
    std::swap(all[random() % all.size()], all.back());
    std::optional<T> taken(std::move(all.back()));
    all.pop_back();
    return taken;
  }

  void BeginRead(Thread& thread, CachingClient& client, size_t object, size_t slot) {
    const CachingClient::Asked asked = client.Ask(object);
    const uint8_t what = slot == kAttributes ? kPromisedAttributes : kPromisedNames;
    const bool given = promises_.Give(Key(object), client.promisee(), what) != 0;
    const uint64_t version = versions_[object][slot];
    if (given) thread.readings.push_back({&client, object, slot, asked, version});
    if (thread.readings.size() > kAtOnce) EndRead(thread);
  }
  void EndRead(Thread& thread) {
    const auto reading = TakeAny(thread.readings, thread.random);
    if (!reading) return;
    reading->client->Store(reading->object, reading->slot, reading->version, reading->asked);
  }

  // No other client may still have what `by` has changed now.
  void Apply(CachingClient& by, size_t object, size_t slot) {
    ++versions_[object][slot];
    for (auto& client : clients_) {
      if (client.get() != &by && client->Has(object, slot)) ++survivors_;
    }
  }

  void BeginModification(Thread& thread, CachingClient& by, size_t object, size_t slot) {
    if (thread.modifications.size() >= kAtOnce) return;
    const bool opens = slot == kAttributes && thread.random() % 2 == 0;
    const bool is_named = slot != kAttributes && thread.random() % 8 != 0;
    thread.modifications.push_back({&by,
                                    object,
                                    slot,
                                    opens,
                                    is_named ? std::to_string(slot) : "",
                                    by.Ask(object),
                                    std::make_unique<Changing>(promises_, by.promisee()),
                                    {}});
    Announce(thread.modifications.back());
  }
  bool Announce(Modification& one) {
    const uint8_t what = one.slot == kAttributes ? kPromisedAttributes : kBoth;
    const bool goes_on = one.changing->Begin(Key(one.object), what, one.name);
    one.calls = one.changing->TakeCalls();
    return goes_on;
  }
  // The holders answer, and the change is applied unless it needs further calls. Or the session of
  // the requester ends before the answers.
  void GoOn(Thread& thread) {
    auto one = TakeAny(thread.modifications, thread.random);
    if (!one) return;
    if (thread.random() % 16 == 0) return DeliverAndAnswerLater(one->calls);
    Deliver(one->calls);
    Answer(one->calls);
    if (!Announce(*one)) {
      thread.modifications.push_back(std::move(*one));
      return;
    }
    Apply(*one->by, one->object, one->slot);
    const uint64_t version = versions_[one->object][one->slot];
    if (one->opens) {
      promises_.OpenedToWrite(Key(one->object), one->by->id());
      thread.openings.push_back({one->by, one->object});
    }
    one->by->Forget(one->object, one->slot);
    if (!one->changing->Keep() || one->slot == kAttributes) return;
    ++one->asked.changed;  // by Forget
    thread.readings.push_back({one->by, one->object, one->slot, one->asked, version});
  }

  void Write(Thread& thread) {
    if (thread.openings.empty()) return;
    const Opening& opening = thread.openings[thread.random() % thread.openings.size()];
    Apply(*opening.by, opening.object, kAttributes);
    opening.by->Forget(opening.object, kAttributes);
  }
  void Close(Thread& thread) {
    const auto opening = TakeAny(thread.openings, thread.random);
    if (opening) promises_.ClosedToWrite(Key(opening->object), opening->by->id());
  }

  void Run(uint32_t seed) {
    Thread thread{std::mt19937(seed), {}, {}, {}};
    for (int step = 0; step < kSteps; ++step) {
      CachingClient& client = *clients_[thread.random() % kClients];
      const size_t object = thread.random() % kObjects;
      const size_t slot = thread.random() % kSlots;
      const auto choice = thread.random() % 1000;
      if (choice < 400) {
        BeginRead(thread, client, object, slot);
      } else if (choice < 550) {
        EndRead(thread);
      } else if (choice < 650) {
        BeginModification(thread, client, object, slot);
      } else if (choice < 790) {
        GoOn(thread);
      } else if (choice < 860) {
        Write(thread);
      } else if (choice < 950) {
        Close(thread);
      } else if (choice < 980) {
        DeliverAndAnswerLater(promises_.PickToEnd(client.promisee(), 4));
      } else if (choice < 995) {
        Answer(late_answers_.Take());
      } else if (choice < 998) {
        client.BecomeVoid();
      } else {
        DeliverAndAnswerLater(promises_.CallAll());
      }
    }
    while (!thread.modifications.empty()) GoOn(thread);
    while (!thread.openings.empty()) Close(thread);
  }

  // Calls that are answered when no request waits for them any more.
  class LateAnswers {
   public:
    void Add(const std::vector<Promises::Call>& calls) {
      absl::MutexLock lock(&mutex_);
      calls_.insert(calls_.end(), calls.begin(), calls.end());
    }
    std::vector<Promises::Call> Take() {
      absl::MutexLock lock(&mutex_);
      return std::exchange(calls_, {});
    }

   private:
    absl::Mutex mutex_;
    std::vector<Promises::Call> calls_ ABSL_GUARDED_BY(mutex_);
  };

  Promises promises_{{.of_client = 20, .of_all = 60}};
  std::vector<std::unique_ptr<CachingClient>> clients_;
  std::array<std::array<std::atomic<uint64_t>, kSlots>, kObjects> versions_{};
  LateAnswers late_answers_;
  std::atomic<uint64_t> survivors_{0};
};

TEST_F(PromisesOfThreads, NoPromiseSurvivesAChange) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { Run(i + 1); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(survivors_, 0);

  Answer(late_answers_.Take());
  uint64_t stored = 0;
  for (auto& client : clients_) {
    stored += client->stored();
    promises_.Forget(client->id());
  }
  const Promises::Counts counts = promises_.GetCounts();
  EXPECT_GT(stored, kSteps / 10);
  EXPECT_GT(counts.calls, kSteps / 10);
  EXPECT_GT(counts.refused, 0);
  EXPECT_EQ(counts.promises, 0);
  EXPECT_EQ(counts.clients, 0);
}

}  // namespace
}  // namespace dafs::server
