// The worker's buffers: where they lie, who gets them, and when they come back.
#include "client/buffer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "wire/dat/task.h"

namespace dafs::client {
namespace {

// Notes what was registered.
class NotingDomain final : public dat::Domain {
 public:
  class NotedRegion final : public dat::Region {
   public:
    NotedRegion(std::span<std::byte> memory, dat::Access access, uint32_t context)
        : Region(memory, access, context, 0x1000) {}
  };
  absl::StatusOr<std::unique_ptr<dat::Region>> Register(std::span<std::byte> memory,
                                                        dat::Access access) override {
    seen.emplace_back(memory, access);
    return std::make_unique<NotedRegion>(memory, access, static_cast<uint32_t>(seen.size()));
  }
  std::vector<std::pair<std::span<std::byte>, dat::Access>> seen;
};

std::unique_ptr<BufferPool> MakePool(size_t bytes = size_t{8} << 20) {
  BufferPoolOptions options;
  options.bytes = bytes;
  auto pool = BufferPool::Create(options);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

TEST(BufferPoolTest, PayloadsArePageAlignedBehindAPageOfHeaderRoom) {
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
    lease.whole().front() = lease.whole().back() = std::byte{1};  // it is really there
  }
}

TEST(BufferPoolTest, SmallReadsGetSmallBuffersAndLargeOnesWhenThoseAreOut) {
  auto pool = MakePool();
  std::vector<BufferLease> leases;
  while (BufferLease lease = pool->TryAcquire(BufferUse::kReadTarget, 4096)) {
    leases.push_back(std::move(lease));
  }
  EXPECT_EQ(leases.front().payload_bytes(), 128u << 10);
  EXPECT_EQ(leases.back().payload_bytes(), 1u << 20);
  EXPECT_TRUE(pool->TryAcquire(BufferUse::kWriteSource, 4096));
}

TEST(BufferPoolTest, EachHalfIsRegisteredForNoMoreThanItsUse) {
  auto pool = MakePool();
  NotingDomain domain;
  ASSERT_TRUE(pool->Register(domain).ok());
  ASSERT_EQ(domain.seen.size(), 2u);
  EXPECT_EQ(domain.seen[0].second, dat::Access::kRemoteWrite);
  EXPECT_EQ(domain.seen[1].second, dat::Access::kRemoteRead);
  BufferLease target = pool->TryAcquire(BufferUse::kReadTarget, 4096);
  BufferLease source = pool->TryAcquire(BufferUse::kWriteSource, 4096);
  auto lies_in = [](const BufferLease& lease, std::span<std::byte> region) {
    return lease.whole().data() >= region.data() &&
           lease.whole().data() + lease.whole().size() <= region.data() + region.size();
  };
  EXPECT_TRUE(lies_in(target, domain.seen[0].first));
  EXPECT_TRUE(lies_in(source, domain.seen[1].first));
  wire::DirectOpBuffer buffer = pool->Advertise(source, source.payload() + 8, 100);
  EXPECT_EQ(buffer.buffer_handle, 2u);
  EXPECT_EQ(buffer.buffer_byte_count, 100u);
  EXPECT_EQ(buffer.buffer_address,
            0x1000u + static_cast<uint64_t>(source.payload() + 8 - domain.seen[1].first.data()));
  pool->Deregister();
}

dat::Task<void> Take(BufferPool& pool, int id, std::vector<int>* order,
                     std::vector<BufferLease>* leases, int* cancelled) {
  absl::StatusOr<BufferLease> lease = co_await pool.Acquire(BufferUse::kWriteSource, 1000);
  if (!lease.ok()) {
    ++*cancelled;
    co_return;
  }
  order->push_back(id);
  leases->push_back(*std::move(lease));
}

TEST(BufferPoolTest, WhoWaitsIsServedInOrderAndNobodyOvertakes) {
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
  for (int id = 0; id < 5; ++id) dat::Start(Take(*pool, id, &order, &got, &cancelled));
  EXPECT_THAT(order, testing::IsEmpty());
  EXPECT_EQ(pool->counts().waiting, 5u);
  held.pop_back();
  held.pop_back();
  EXPECT_THAT(order, testing::ElementsAre(0, 1));
  EXPECT_FALSE(pool->TryAcquire(BufferUse::kWriteSource, 1));
  EXPECT_TRUE(pool->TryAcquire(BufferUse::kReadTarget, 1));  // another half, another queue
  pool->Close();
  EXPECT_EQ(cancelled, 3);
  dat::Start(Take(*pool, 9, &order, &got, &cancelled));
  EXPECT_EQ(cancelled, 4);
}

TEST(BufferPoolTest, APinnedBufferComesBackWithItsPin) {
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

TEST(BufferPoolTest, APoolWithoutRoomForOneBufferOfEachUseIsRefused) {
  BufferPoolOptions options;
  options.bytes = 1u << 20;
  EXPECT_TRUE(absl::IsInvalidArgument(BufferPool::Create(options).status()));
}

}  // namespace
}  // namespace dafs::client
