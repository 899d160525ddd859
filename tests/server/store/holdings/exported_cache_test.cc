// The exported cache by itself: what a copy of a block shows while threads change blocks.
#include "server/store/holdings/exported_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace dafs::server {
namespace {

ObjectKey Key(uint8_t number) {
  ObjectKey key;
  key.bytes.fill(number);
  return key;
}

class ExportedCacheTest : public testing::Test {
 protected:
  std::optional<ExportedCache::Reference> Put(ExportedCache& cache, const ObjectKey& file,
                                              uint64_t block, char content) {
    auto filling = cache.Begin(0, file, block);
    if (!filling.has_value()) return std::nullopt;
    std::memset(filling->data().data(), content, wire::kExportedBlock);
    return std::move(*filling).Publish();
  }
  // Copies as an RDMA read does, in the order of `backwards`.
  static std::array<std::byte, wire::kExportedFrame> Copy(std::span<const std::byte> slab,
                                                          uint64_t position, bool backwards) {
    std::array<std::byte, wire::kExportedFrame> copy;
    constexpr size_t kPart = wire::kExportedFrame / 4;
    for (size_t i = 0; i < 4; ++i) {
      const size_t at = (backwards ? 3 - i : i) * kPart;
      std::memcpy(copy.data() + at, slab.data() + position + at, kPart);
    }
    return copy;
  }
};

TEST_F(ExportedCacheTest, IsOffWithoutMemory) {
  ExportedCache cache(0, 1);
  EXPECT_FALSE(cache.on());
  EXPECT_TRUE(cache.SlabOf(0).empty());
  cache.BeginChange(Key(1), 0, 10);
  cache.EndChange(Key(1));
  cache.DropAll();
  EXPECT_FALSE(cache.Begin(0, Key(1), 0).has_value());
}

// Shows ODAFS-06, ODAFS-08.
TEST_F(ExportedCacheTest, AChangeMakesItsBlocksInvalidAndKeepsThemFromBeingPublished) {
  ExportedCache cache(64 * wire::kExportedStride, 1);
  const auto slab = cache.SlabOf(0);
  std::array<ExportedCache::Reference, 4> references;
  for (uint64_t block = 0; block < 4; ++block) {
    references[block] = *Put(cache, Key(1), block, 'a');
  }
  const auto valid = [&](size_t block) {
    return wire::IsExported(Copy(slab, references[block].position, false),
                            references[block].version);
  };
  EXPECT_TRUE(valid(0) && valid(1) && valid(2) && valid(3));
  auto filling = cache.Begin(0, Key(1), 9);
  cache.BeginChange(Key(1), 4095, 8193);  // blocks 0, 1 and 2
  EXPECT_FALSE(valid(0) || valid(1) || valid(2));
  EXPECT_TRUE(valid(3));
  EXPECT_FALSE(std::move(*filling).Publish().has_value());
  EXPECT_FALSE(cache.Begin(0, Key(1), 1).has_value());
  cache.EndChange(Key(1));
  EXPECT_TRUE(Put(cache, Key(1), 1, 'b').has_value());
  EXPECT_FALSE(cache.Find(0, Key(1), 0).has_value());
  EXPECT_EQ(cache.Find(0, Key(1), 3)->version, references[3].version);
  cache.Drop(Key(1));
  EXPECT_FALSE(valid(3));
  EXPECT_EQ(cache.GetCounts().blocks, 0u);
  EXPECT_EQ(cache.GetCounts().invalidated, 5u);
}

TEST_F(ExportedCacheTest, AFileThatHasLostItsLastBlockIsReported) {
  std::vector<ObjectKey> empty;
  ExportedCache cache(4 * wire::kExportedStride, 1,
                      [&](const ObjectKey& key) { empty.push_back(key); });
  cache.SlabOf(0);
  for (uint64_t block = 0; block < 2; ++block) Put(cache, Key(1), block, 'a');
  for (uint64_t block = 0; block < 4; ++block) Put(cache, Key(2), block, 'b');
  ASSERT_EQ(empty.size(), 1u);
  EXPECT_EQ(empty[0], Key(1));
  EXPECT_EQ(cache.GetCounts().evicted, 2u);
}

// Shows ODAFS-05: threads replace blocks all the time; a copy, in either order, that verifies is
// never a mixture, nor another block than the reference's.
TEST_F(ExportedCacheTest, NoCopyThatVerifiesIsTorn) {
  ExportedCache cache(8 * wire::kExportedStride, 1);
  const auto slab = cache.SlabOf(0);
  std::atomic<bool> ends{false};
  std::vector<std::thread> writers;
  for (uint8_t number = 1; number <= 2; ++number) {
    writers.emplace_back([&, number] {
      std::mt19937 dice(number);
      while (!ends) {
        const uint64_t block = dice() % 8;
        cache.BeginChange(Key(number), block * wire::kExportedBlock,
                          (block + 1) * wire::kExportedBlock);
        cache.EndChange(Key(number));
        Put(cache, Key(number), block, static_cast<char>(number * 16 + block));
      }
    });
  }
  std::mt19937 dice(3);
  uint64_t verified = 0;
  for (int i = 0; i < 300'000; ++i) {
    const auto number = static_cast<uint8_t>(1 + dice() % 2);
    const uint64_t block = dice() % 8;
    const auto reference = cache.Find(0, Key(number), block);
    if (!reference.has_value()) continue;
    const auto copy = Copy(slab, reference->position, i % 2 == 1);
    if (!wire::IsExported(copy, reference->version)) continue;
    ++verified;
    const auto expected = static_cast<std::byte>(number * 16 + block);
    for (size_t at = 0; at < wire::kExportedBlock; at += 64) {
      ASSERT_EQ(copy[wire::kExportedEdge + at], expected) << "at " << at;
    }
  }
  ends = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_GT(verified, 0u);
}

}  // namespace
}  // namespace dafs::server
