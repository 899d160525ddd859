// The worker's buffers: their layout, which call gets them, and when they are returned.
#include "client/memory/buffer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs::client {
namespace {

// Records the registered memory and the number of regions. Registers at most `most` regions.
class NotingDomain final : public dat::Domain {
 public:
  class NotedRegion final : public dat::Region {
   public:
    NotedRegion(NotingDomain& domain, std::span<std::byte> memory, dat::Access access,
                uint32_t context)
        : Region(memory, access, context, 0x1000), domain_(domain) {
      ++domain_.regions;
    }
    ~NotedRegion() override { --domain_.regions; }

   private:
    NotingDomain& domain_;
  };
  absl::StatusOr<std::unique_ptr<dat::Region>> Register(std::span<std::byte> memory,
                                                        dat::Access access) override {
    if (regions >= most) return absl::ResourceExhaustedError("raise the limit");
    seen.emplace_back(memory, access);
    return std::make_unique<NotedRegion>(*this, memory, access, static_cast<uint32_t>(seen.size()));
  }
  std::vector<std::pair<std::span<std::byte>, dat::Access>> seen;
  size_t regions = 0;
  size_t most = 1000;
};

// Returns the number of resident bytes of `memory`, in whole pages.
size_t ResidentBytes(std::span<std::byte> memory) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(memory.size() / page);
  EXPECT_EQ(mincore(memory.data(), memory.size(), pages.data()), 0);
  size_t resident = 0;
  for (const unsigned char one : pages) resident += (one & 1) != 0 ? page : 0;
  return resident;
}

std::unique_ptr<BufferPool> MakePool(size_t bytes = size_t{8} << 20) {
  BufferPoolOptions options;
  options.bytes = bytes;
  auto pool = BufferPool::Create(options);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

TEST(BufferPoolTest, PayloadsArePageAlignedAfterAPageForHeaders) {
  auto pool = MakePool();
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (BufferUse use : {BufferUse::kReadTarget, BufferUse::kWriteSource}) {
    BufferLease lease = pool->TryAcquire(use, 1u << 20);
    ASSERT_TRUE(lease);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(lease.payload()) % page, 0u);
    EXPECT_GE(lease.payload_bytes(), 1u << 20);
    EXPECT_EQ(lease.whole().data() + page, lease.payload());
    EXPECT_EQ(lease.whole().size(), page + lease.payload_bytes());
    EXPECT_EQ(lease.use(), use);
    lease.whole().front() = lease.whole().back() = std::byte{1};  // the memory exists
  }
}

TEST(BufferPoolTest, SmallReadsUseLargeBuffersOnlyWhenNoSmallOneIsFree) {
  auto pool = MakePool();
  std::vector<BufferLease> leases;
  while (BufferLease lease = pool->TryAcquire(BufferUse::kReadTarget, 4096)) {
    leases.push_back(std::move(lease));
  }
  EXPECT_EQ(leases.front().payload_bytes(), 128u << 10);
  EXPECT_EQ(leases.back().payload_bytes(), 1u << 20);
  EXPECT_TRUE(pool->TryAcquire(BufferUse::kWriteSource, 4096));
}

TEST(BufferPoolTest, EachBufferIsRegisteredForItsUseOnly) {
  auto pool = MakePool();
  NotingDomain domain;
  ASSERT_TRUE(pool->Register(domain).ok());
  ASSERT_EQ(domain.seen.size(), 1u);  // the reserve
  EXPECT_EQ(domain.seen[0].second, dat::Access::kRemoteRead);
  BufferLease target = pool->TryAcquire(BufferUse::kReadTarget, 4096);
  BufferLease source = pool->TryAcquire(BufferUse::kWriteSource, 4096);
  ASSERT_EQ(domain.seen.size(), 3u);
  EXPECT_EQ(domain.seen[1].second, dat::Access::kRemoteWrite);
  EXPECT_EQ(domain.seen[2].second, dat::Access::kRemoteRead);
  auto lies_in = [](const BufferLease& lease, std::span<std::byte> region) {
    return lease.whole().data() >= region.data() &&
           lease.whole().data() + lease.whole().size() <= region.data() + region.size();
  };
  EXPECT_TRUE(lies_in(target, domain.seen[1].first));
  EXPECT_TRUE(lies_in(source, domain.seen[2].first));
  wire::DirectOpBuffer buffer = pool->Advertise(source, source.payload() + 8, 100);
  EXPECT_EQ(buffer.buffer_handle, 3u);
  EXPECT_EQ(buffer.buffer_byte_count, 100u);
  EXPECT_EQ(buffer.buffer_address,
            0x1000u + static_cast<uint64_t>(source.payload() + 8 - domain.seen[2].first.data()));
  pool->Deregister();
  EXPECT_EQ(domain.regions, 0u);
  NotingDomain next;  // for the next session: resident buffers are registered at once
  ASSERT_TRUE(pool->Register(next).ok());
  EXPECT_EQ(next.regions, 3u);
  pool->Deregister();
}

Task<void> Take(BufferPool& pool, int id, std::vector<int>* order, std::vector<BufferLease>* leases,
                int* cancelled);

// Uses a fake clock: the test passes the time to the pool.
class IdleBufferTest : public testing::Test {
 protected:
  IdleBufferTest() { EXPECT_TRUE(pool_->Register(domain_).ok()); }
  ~IdleBufferTest() override { pool_->Deregister(); }
  bool ReleaseUnused(absl::Duration after_start) {
    return pool_->ReleaseUnused(start_ + after_start);
  }
  static void Fill(BufferLease& lease, char with) {
    std::memset(lease.payload(), with, lease.payload_bytes());
  }

  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  NotingDomain domain_;
  std::unique_ptr<BufferPool> pool_ = MakePool(size_t{64} << 20);
  const size_t reserve_ = pool_->counts().resident_bytes;
};

TEST_F(IdleBufferTest, MemoryIsAllocatedAsBuffersAreNeeded) {
  EXPECT_LT(reserve_, size_t{2} << 20);
  std::vector<BufferLease> leases;
  for (int i = 0; i < 3; ++i) {
    leases.push_back(pool_->TryAcquire(BufferUse::kReadTarget, 1u << 20));
    leases.push_back(pool_->TryAcquire(BufferUse::kWriteSource, 1u << 20));
  }
  const size_t then = pool_->counts().resident_bytes;
  EXPECT_GE(then, reserve_ + (size_t{6} << 20));
  EXPECT_LT(then, reserve_ + (size_t{7} << 20));
  for (const BufferLease& lease : leases)
    EXPECT_EQ(ResidentBytes(lease.whole()), lease.whole().size());
  leases.clear();
  leases.push_back(pool_->TryAcquire(BufferUse::kReadTarget, 1u << 20));
  EXPECT_EQ(pool_->counts().resident_bytes, then);
}

TEST_F(IdleBufferTest, MemoryUnusedForAMinuteIsReturnedToTheSystem) {
  BufferLease write = pool_->TryAcquire(BufferUse::kWriteSource, 1u << 20);
  BufferLease small = pool_->TryAcquire(BufferUse::kReadTarget, 4096);
  Fill(write, 'w');
  Fill(small, 's');
  const std::span<std::byte> of_write = write.whole();
  const std::span<std::byte> of_small = small.whole();
  write.Release();
  small.Release();
  EXPECT_TRUE(ReleaseUnused(absl::Seconds(0)));  // they were used before
  EXPECT_TRUE(ReleaseUnused(absl::Seconds(59)));
  EXPECT_EQ(ResidentBytes(of_write), of_write.size());
  EXPECT_FALSE(ReleaseUnused(absl::Seconds(60)));
  EXPECT_EQ(ResidentBytes(of_write), 0u);
  EXPECT_EQ(ResidentBytes(of_small), 0u);
  EXPECT_EQ(pool_->counts().resident_bytes, reserve_);
  EXPECT_EQ(domain_.regions, 1u);
  write = pool_->TryAcquire(BufferUse::kWriteSource, 1u << 20);
  EXPECT_EQ(write.whole().data(), of_write.data());
  EXPECT_EQ(write.payload()[0], std::byte{0});
  EXPECT_EQ(domain_.regions, 2u);
}

TEST_F(IdleBufferTest, HeldOrUsedBuffersStayResident) {
  std::vector<BufferLease> leases;
  for (int i = 0; i < 6; ++i)
    leases.push_back(pool_->TryAcquire(BufferUse::kWriteSource, 1u << 20));
  BufferLease held = std::move(leases[1]);
  BufferPin pin = pool_->Pin(leases[3]);
  const std::span<std::byte> pinned = leases[3].whole();
  Fill(held, 'h');
  std::memset(pinned.data(), 'p', pinned.size());
  leases.clear();
  for (int second = 0; second <= 180; second += 15) {
    EXPECT_TRUE(ReleaseUnused(absl::Seconds(second)));
    pool_->TryAcquire(BufferUse::kWriteSource, 1).Release();  // the first of them, repeatedly
  }
  EXPECT_EQ(held.payload()[0], std::byte{'h'});
  EXPECT_EQ(held.payload()[held.payload_bytes() - 1], std::byte{'h'});
  EXPECT_EQ(pinned.front(), std::byte{'p'});
  EXPECT_EQ(pinned.back(), std::byte{'p'});
  const size_t one = BufferLease::header_room() + (1u << 20);
  EXPECT_EQ(pool_->counts().resident_bytes, reserve_ + 3 * one);
  pin.Release();
}

TEST_F(IdleBufferTest, ListeningNeedsOnlyTheReserve) {
  BufferLease listening = pool_->TryAcquireToListen(1u << 20);
  ASSERT_TRUE(listening);
  EXPECT_EQ(pool_->counts().resident_bytes, reserve_);
  listening.MarkUsed();  // a write arrived in it
  BufferLease next = pool_->TryAcquireToListen(1u << 20);
  EXPECT_GT(pool_->counts().resident_bytes, reserve_);
  next.MarkUsed();
  listening.Release();
  // While writes arrive, the pool listens in buffers of huge pages instead of the reserve.
  BufferLease third = pool_->TryAcquireToListen(1u << 20);
  const size_t one = BufferLease::header_room() + (1u << 20);
  EXPECT_EQ(pool_->counts().resident_bytes, reserve_ + 2 * one);
  next.Release();
  third.Release();
  EXPECT_TRUE(ReleaseUnused(absl::Seconds(0)));
  for (int second = 15; second < 60; second += 15) {
    BufferLease still = pool_->TryAcquireToListen(1u << 20);  // listening does not count as use
    still.Release();
    EXPECT_TRUE(ReleaseUnused(absl::Seconds(second)));
  }
  EXPECT_FALSE(ReleaseUnused(absl::Seconds(60)));
}

TEST_F(IdleBufferTest, RequestsWaitIfMemoryForMoreBuffersIsMissing) {
  domain_.most = 2;
  BufferLease first = pool_->TryAcquire(BufferUse::kWriteSource, 1);
  BufferLease reserve = pool_->TryAcquire(BufferUse::kWriteSource, 1);
  ASSERT_TRUE(first && reserve);
  std::vector<int> order;
  std::vector<BufferLease> got;
  int failed = 0;
  Start(Take(*pool_, 1, &order, &got, &failed));
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(pool_->counts().waiting, 1u);
  EXPECT_EQ(pool_->counts().wait_time, absl::ZeroDuration());
  first.Release();
  EXPECT_THAT(order, testing::ElementsAre(1));
  EXPECT_EQ(pool_->counts().waits, 1u);
  EXPECT_GT(pool_->counts().wait_time, absl::ZeroDuration());
}

// If idle memory is never returned to the system, no timer examines the pool.
TEST_F(IdleBufferTest, MemoryShortageEndsWithoutATimer) {
  domain_.most = 2;
  BufferLease first = pool_->TryAcquire(BufferUse::kReadTarget, 1u << 20);
  ASSERT_TRUE(first);
  EXPECT_FALSE(pool_->TryAcquire(BufferUse::kReadTarget, 1u << 20));
  domain_.most = 3;
  BufferLease second;
  uint32_t denied = 0;
  for (; !second && denied <= BufferBlocks::kGrowAgainAfter; ++denied) {
    second = pool_->TryAcquire(BufferUse::kReadTarget, 1u << 20);
  }
  EXPECT_TRUE(second);
  EXPECT_EQ(denied, BufferBlocks::kGrowAgainAfter);
}

Task<void> TakeToRead(BufferPool& pool, absl::Status* status) {
  absl::StatusOr<BufferLease> lease = co_await pool.Acquire(BufferUse::kReadTarget, 1000);
  *status = lease.status();
}

TEST_F(IdleBufferTest, ReadFailsInsteadOfWaitingIfNoReadBufferExists) {
  domain_.most = 1;
  EXPECT_FALSE(pool_->TryAcquire(BufferUse::kReadTarget, 1000));
  absl::Status status;
  Start(TakeToRead(*pool_, &status));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  domain_.most = 2;
  Start(TakeToRead(*pool_, &status));
  EXPECT_TRUE(status.ok()) << status;
}

Task<void> Take(BufferPool& pool, int id, std::vector<int>* order, std::vector<BufferLease>* leases,
                int* cancelled) {
  absl::StatusOr<BufferLease> lease = co_await pool.Acquire(BufferUse::kWriteSource, 1000);
  if (!lease.ok()) {
    ++*cancelled;
    co_return;
  }
  order->push_back(id);
  leases->push_back(*std::move(lease));
}

TEST(BufferPoolTest, WaitersAreServedInOrder) {
  auto pool = MakePool();
  std::vector<BufferLease> held;
  while (BufferLease lease = pool->TryAcquire(BufferUse::kWriteSource, 1)) {
    held.push_back(std::move(lease));
  }
  const size_t count = held.size();
  ASSERT_GE(count, 2u);
  std::vector<int> order;
  std::vector<BufferLease> got;
  int cancelled = 0;
  for (int id = 0; id < 5; ++id) Start(Take(*pool, id, &order, &got, &cancelled));
  EXPECT_THAT(order, testing::IsEmpty());
  EXPECT_EQ(pool->counts().waiting, 5u);
  held.pop_back();
  held.pop_back();
  EXPECT_THAT(order, testing::ElementsAre(0, 1));
  EXPECT_FALSE(pool->TryAcquire(BufferUse::kWriteSource, 1));
  EXPECT_TRUE(pool->TryAcquire(BufferUse::kReadTarget, 1));  // the other half has its own queue
  pool->Close();
  EXPECT_EQ(cancelled, 3);
  Start(Take(*pool, 9, &order, &got, &cancelled));
  EXPECT_EQ(cancelled, 4);
}

TEST(BufferPoolTest, PinnedBufferIsReturnedWithItsPin) {
  auto pool = MakePool();
  BufferLease lease = pool->TryAcquire(BufferUse::kReadTarget, 1u << 20);
  std::byte* at = lease.payload();
  BufferPin first = pool->Pin(lease);
  BufferPin second = pool->Pin(lease);
  lease.Release();
  EXPECT_EQ(pool->counts().quarantined, 1u);
  first.Release();
  BufferLease other = pool->TryAcquire(BufferUse::kReadTarget, 1u << 20);
  EXPECT_TRUE(!other || other.payload() != at);
  second.Release();
  EXPECT_EQ(pool->counts().quarantined, 0u);
  EXPECT_EQ(pool->TryAcquire(BufferUse::kReadTarget, 1u << 20).payload(), at);
}

// A pool that can keep buffers: sixteen for writes.
class KeptBufferTest : public testing::Test {
 protected:
  KeptBufferTest() { pool_->ReturnBy(*loop_); }
  BufferLease Sealed() {
    BufferLease lease = pool_->TryAcquire(BufferUse::kWriteSource, 1u << 20);
    if (lease) lease.Seal();
    return lease;
  }
  // Keeps as many buffers as the pool allows, and releases their leases.
  std::vector<std::shared_ptr<const void>> KeepAll() {
    std::vector<std::shared_ptr<const void>> kept;
    while (auto memory = pool_->Keep(Sealed())) kept.push_back(std::move(memory));
    return kept;
  }

  std::unique_ptr<Loop> loop_ = *Loop::Create({});
  std::unique_ptr<BufferPool> pool_ = MakePool(size_t{33} << 20);
};

TEST_F(KeptBufferTest, IsFreeOnlyAfterItsLastHolderReleasesIt) {
  BufferLease lease = Sealed();
  std::byte* at = lease.payload();
  std::shared_ptr<const void> kept = pool_->Keep(lease);
  std::shared_ptr<const void> again = pool_->Keep(lease);
  ASSERT_NE(kept, nullptr);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(pool_->counts().kept, 1u);
  lease.Release();
  std::vector<BufferLease> others;
  while (BufferLease other = pool_->TryAcquire(BufferUse::kWriteSource, 1)) {
    EXPECT_NE(other.payload(), at);
    others.push_back(std::move(other));
  }
  kept.reset();
  EXPECT_FALSE(pool_->TryAcquire(BufferUse::kWriteSource, 1));
  again.reset();
  EXPECT_EQ(pool_->TryAcquire(BufferUse::kWriteSource, 1).payload(), at);
  EXPECT_EQ(pool_->counts().kept, 0u);
}

TEST_F(KeptBufferTest, LeaseStaysWithItsHolderWhenItsContentIsReleased) {
  BufferLease lease = Sealed();
  pool_->Keep(lease).reset();
  EXPECT_NE(pool_->TryAcquire(BufferUse::kWriteSource, 1).payload(), lease.payload());
  EXPECT_EQ(pool_->counts().kept, 0u);
  EXPECT_EQ(pool_->counts().leased, 1u);
}

// The first write of an idle mount arrives in the reserve, which is never kept.
TEST_F(KeptBufferTest, OnlyTheFirstWriteUsesTheReserve) {
  for (const bool is_kept : {false, true}) {
    BufferLease write = pool_->TryAcquireToListen(1u << 20);
    ASSERT_TRUE(write);
    write.MarkUsed();
    write.Seal();
    EXPECT_EQ(pool_->Keep(write) != nullptr, is_kept);
  }
}

TEST_F(KeptBufferTest, PinOutlivesIt) {
  BufferLease lease = Sealed();
  std::byte* at = lease.payload();
  BufferPin pin = pool_->Pin(lease);
  std::shared_ptr<const void> kept = pool_->Keep(lease);
  lease.Release();
  kept.reset();
  EXPECT_NE(pool_->TryAcquire(BufferUse::kWriteSource, 1).payload(), at);
  pin.Release();
  EXPECT_EQ(pool_->TryAcquire(BufferUse::kWriteSource, 1).payload(), at);
}

TEST_F(KeptBufferTest, OnlySealedWriteBuffersAreKept) {
  BufferLease lease = Sealed();
  std::byte* at = lease.payload();
  lease.Release();
  lease = pool_->TryAcquire(BufferUse::kWriteSource, 1);  // the next holder has not sealed it
  ASSERT_EQ(lease.payload(), at);
  EXPECT_EQ(pool_->Keep(lease), nullptr);
  BufferLease target = pool_->TryAcquire(BufferUse::kReadTarget, 1);
  target.Seal();
  EXPECT_EQ(pool_->Keep(target), nullptr);
  auto other = MakePool();  // has no thread to which buffers could be returned
  BufferLease of_other = other->TryAcquire(BufferUse::kWriteSource, 1);
  of_other.Seal();
  EXPECT_EQ(other->Keep(of_other), nullptr);
}

TEST_F(KeptBufferTest, SomeBuffersRemainForWrites) {
  EXPECT_FALSE(pool_->KeepsMost());
  std::vector<std::shared_ptr<const void>> kept = KeepAll();
  EXPECT_EQ(kept.size(), 12u);
  EXPECT_TRUE(pool_->KeepsMost());
  std::vector<BufferLease> left;
  while (BufferLease lease = Sealed()) left.push_back(std::move(lease));
  EXPECT_EQ(left.size(), 4u);
  EXPECT_EQ(pool_->Keep(left.front()), nullptr);
  kept.pop_back();
  EXPECT_NE(pool_->Keep(left.front()), nullptr);
}

TEST_F(KeptBufferTest, NoneIsKeptWhileACallWaits) {
  std::vector<BufferLease> held;
  while (BufferLease lease = Sealed()) held.push_back(std::move(lease));
  std::vector<int> order;
  std::vector<BufferLease> got;
  int cancelled = 0;
  Start(Take(*pool_, 1, &order, &got, &cancelled));
  EXPECT_EQ(pool_->Keep(held.back()), nullptr);
  held.pop_back();
  EXPECT_THAT(order, testing::ElementsAre(1));
  EXPECT_NE(pool_->Keep(held.back()), nullptr);
}

TEST_F(KeptBufferTest, SmallPoolKeepsNone) {
  pool_ = MakePool(size_t{8} << 20);
  pool_->ReturnBy(*loop_);
  EXPECT_EQ(pool_->Keep(Sealed()), nullptr);
  EXPECT_FALSE(pool_->KeepsMost());
}

TEST_F(KeptBufferTest, WaiterGetsBufferReleasedByAnotherThread) {
  std::vector<std::shared_ptr<const void>> kept = KeepAll();
  std::vector<BufferLease> held;
  while (BufferLease lease = Sealed()) held.push_back(std::move(lease));
  std::vector<int> order;
  std::vector<BufferLease> got;
  int cancelled = 0;
  for (int id = 0; id < 3; ++id) Start(Take(*pool_, id, &order, &got, &cancelled));
  ASSERT_THAT(order, testing::IsEmpty());
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) kept.pop_back();
  });
  const absl::Time patience = Loop::Now() + absl::Seconds(20);
  while (order.size() < 3 && Loop::Now() < patience) loop_->RunOnce(absl::Seconds(1));
  other.join();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2));
}

TEST_F(KeptBufferTest, OutlivesThePool) {
  BufferLease lease = Sealed();
  std::memset(lease.payload(), 'k', 1u << 20);
  const std::byte* at = lease.payload();
  std::shared_ptr<const void> kept = pool_->Keep(lease);
  std::vector<std::shared_ptr<const void>> more = KeepAll();
  std::vector<BufferLease> held;
  while (BufferLease other = Sealed()) held.push_back(std::move(other));
  std::vector<int> order;
  std::vector<BufferLease> got;
  int cancelled = 0;
  Start(Take(*pool_, 1, &order, &got, &cancelled));
  more.clear();  // posted to the loop, which runs after the pool is destroyed
  held.clear();
  lease.Release();
  got.clear();
  pool_.reset();
  loop_->RunOnce(absl::ZeroDuration());
  EXPECT_EQ(at[0], std::byte{'k'});
  EXPECT_EQ(at[(1u << 20) - 1], std::byte{'k'});
  kept.reset();
}

TEST(BufferPoolTest, PoolTooSmallForOneBufferPerUseIsRejected) {
  BufferPoolOptions options;
  options.bytes = 1u << 20;
  EXPECT_TRUE(absl::IsInvalidArgument(BufferPool::Create(options).status()));
}

}  // namespace
}  // namespace dafs::client
