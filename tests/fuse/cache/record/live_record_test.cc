#include "fuse/cache/record/live_record.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace dafs::fuse {
namespace {

using Content = std::map<std::pair<int, uint64_t>, std::string>;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Content ContentOf(int memfd) {
  Content content;
  const auto items = LiveRecord::Read(memfd);
  EXPECT_TRUE(items.ok()) << items.status();
  if (!items.ok()) return content;
  for (const LiveRecord::Item& item : *items) {
    content[{item.kind, item.key}] = {reinterpret_cast<const char*>(item.body.data()),
                                      item.body.size()};
  }
  EXPECT_EQ(content.size(), items->size());
  return content;
}

TEST(LiveRecordTest, ReadReturnsWhatWasPutLastAndNotDropped) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  LiveRecord& live = **record;
  const std::string large(LiveRecord::kSlotBody, 'x');
  LiveRecord::Slot one = live.Put(1, 7, Bytes("one"), 0, 0);
  const LiveRecord::Slot two = live.Put(2, 7, Bytes("two"), 0, 0);
  live.Put(1, 8, Bytes(""), 0, 0);
  live.Put(1, 9, Bytes(large), 0, 0);
  one = live.Put(1, 7, Bytes(std::string(80, 'o')), 0, one);
  live.Put(1, 7, Bytes("last"), 0, one);
  live.Drop(two);
  EXPECT_EQ(ContentOf(live.memfd()), (Content{{{1, 7}, "last"}, {{1, 8}, ""}, {{1, 9}, large}}));
}

TEST(LiveRecordTest, BodyThatIsTooLargeIsNotStored) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  const LiveRecord::Slot slot = (*record)->Put(1, 1, Bytes("small"), 0, 0);
  EXPECT_EQ((*record)->Put(1, 1, Bytes(std::string(LiveRecord::kMostBody + 1, 'x')), 0, slot), 0u);
  EXPECT_TRUE(ContentOf((*record)->memfd()).empty());
}

TEST(LiveRecordTest, LongBodyIsStoredInAChain) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  LiveRecord& live = **record;
  std::string body;
  for (int i = 0; i < 5000; ++i) body += std::to_string(i);
  LiveRecord::Slot slot = live.Put(1, 1, Bytes(body), 3, 0);
  live.AddToCount(slot, 4);
  live.Put(1, 2, Bytes("other"), 0, 0);
  EXPECT_EQ(ContentOf(live.memfd()), (Content{{{1, 1}, body}, {{1, 2}, "other"}}));
  EXPECT_EQ(LiveRecord::Read(live.memfd())->at(0).count, 7u);
  for (int i = 0; i < 100; ++i) slot = live.Put(1, 1, Bytes(body), 0, slot);
  EXPECT_LE(slot, 3 * body.size() / LiveRecord::kSlotBody);  // freed slots are used again
  live.Drop(slot);
  EXPECT_EQ(ContentOf(live.memfd()), (Content{{{1, 2}, "other"}}));
}

// Each part of a chain is under a checksum, so a chain that is damaged anywhere is not an item.
TEST(LiveRecordTest, DamagedChainIsAsIfItWereFree) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  const std::string body(3 * LiveRecord::kSlotBody, 'x');
  (*record)->Put(1, 1, Bytes(body), 0, 0);
  const int memfd = (*record)->memfd();
  for (off_t at = 0; at < 3 * LiveRecord::kSlotBytes; ++at) {
    if (at == 8) at = 16;  // the count of the first slot; those of the others are not used
    if (at % LiveRecord::kSlotBytes >= 8 && at % LiveRecord::kSlotBytes < 16) continue;
    uint8_t byte = 0;
    ASSERT_EQ(pread(memfd, &byte, 1, at), 1);
    const auto changed = static_cast<uint8_t>(byte ^ 1);
    ASSERT_EQ(pwrite(memfd, &changed, 1, at), 1);
    EXPECT_TRUE(ContentOf(memfd).empty()) << "byte " << at;
    ASSERT_EQ(pwrite(memfd, &byte, 1, at), 1);
  }
  EXPECT_EQ(ContentOf(memfd).size(), 1u);
}

TEST(LiveRecordTest, CountIsThatOfTheLastPutOrSetCount) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  const LiveRecord::Slot slot = (*record)->Put(1, 1, Bytes("x"), 5, 0);
  EXPECT_EQ(LiveRecord::Read((*record)->memfd())->at(0).count, 5u);
  (*record)->SetCount(slot, 6);
  EXPECT_EQ(LiveRecord::Read((*record)->memfd())->at(0).count, 6u);
}

TEST(LiveRecordTest, FreedSlotsAreUsedAgain) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  LiveRecord::Slot slot = 0;
  for (int i = 0; i < 100; ++i) slot = (*record)->Put(1, 1, Bytes(std::to_string(i)), 0, slot);
  EXPECT_LE(slot, 2u);
}

TEST(LiveRecordTest, ChangesInFlightFollowTheSlots) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  (*record)->Put(1, 1, Bytes("one"), 0, 0);
  const std::span<std::byte> memory = (*record)->in_flight();
  memory.front() = memory.back() = std::byte{7};
  const std::vector<std::byte> left = LiveRecord::ReadInFlight((*record)->memfd());
  ASSERT_EQ(left.size(), memory.size());
  EXPECT_EQ(left.front(), std::byte{7});
  EXPECT_EQ(left.back(), std::byte{7});
  EXPECT_EQ(ContentOf((*record)->memfd()), (Content{{{1, 1}, "one"}}));
  EXPECT_TRUE(LiveRecord::ReadInFlight(-1).empty());
}

TEST(LiveRecordTest, PagesWithoutItemsAreReleased) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  LiveRecord& live = **record;
  const auto blocks = [&] {
    struct stat info = {};
    fstat(live.memfd(), &info);
    return info.st_blocks;
  };
  std::vector<LiveRecord::Slot> slots;
  for (uint64_t key = 1; key <= 1000; ++key) slots.push_back(live.Put(1, key, Bytes("x"), 0, 0));
  const auto full = blocks();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i != 500) live.Drop(slots[i]);
  }
  live.ReleaseUnused();
  EXPECT_LE(blocks(), full / 8);
  EXPECT_EQ(ContentOf(live.memfd()), (Content{{{1, 501}, "x"}}));
  for (uint64_t key = 1; key <= 999; ++key) live.Put(2, key, Bytes("y"), 0, 0);
  EXPECT_EQ(ContentOf(live.memfd()).size(), 1000u);
}

TEST(LiveRecordTest, DamagedSlotIsAsIfItWereFree) {
  auto record = LiveRecord::Create();
  ASSERT_TRUE(record.ok());
  (*record)->Put(1, 1, Bytes("first"), 0, 0);
  (*record)->Put(1, 2, Bytes("second"), 0, 0);
  const int memfd = (*record)->memfd();
  for (off_t at = 0; at < LiveRecord::kHeaderBytes + 5; ++at) {
    if (at == 8) at = 16;  // the count
    uint8_t byte = 0;
    ASSERT_EQ(pread(memfd, &byte, 1, at), 1);
    for (int bit = 0; bit < 8; ++bit) {
      const auto changed = static_cast<uint8_t>(byte ^ (1 << bit));
      ASSERT_EQ(pwrite(memfd, &changed, 1, at), 1);
      EXPECT_EQ(ContentOf(memfd), (Content{{{1, 2}, "second"}})) << "byte " << at << " bit " << bit;
    }
    ASSERT_EQ(pwrite(memfd, &byte, 1, at), 1);
  }
  EXPECT_EQ(ContentOf(memfd).size(), 2u);
}

TEST(LiveRecordTest, OtherMemfdsAreRefused) {
  const UniqueFd memfd(memfd_create("other", MFD_CLOEXEC));
  EXPECT_FALSE(LiveRecord::Read(memfd.get()).ok());
  ASSERT_EQ(ftruncate(memfd.get(), 1 << 20), 0);
  EXPECT_FALSE(LiveRecord::Read(memfd.get()).ok());
}

// Each of two items is always there, with a body that was put at some time, whole.
TEST(LiveRecordTest, KilledProcessLeavesItemsWhole) {
  for (int round = 0; round < 50; ++round) {
    auto record = LiveRecord::Create();
    ASSERT_TRUE(record.ok());
    LiveRecord& live = **record;
    LiveRecord::Slot slots[2] = {live.Put(1, 1, Bytes("a"), 0, 0),
                                 live.Put(1, 2, Bytes("a"), 0, 0)};
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (uint64_t n = 0;; ++n) {
        const std::string body(1 + n % 300, static_cast<char>('a' + n % 26));
        slots[n % 2] = live.Put(1, 1 + n % 2, Bytes(body), 0, slots[n % 2]);
        if (n == 100 && write(ready[1], "", 1) != 1) _exit(1);
      }
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    usleep(static_cast<useconds_t>(round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
    const Content content = ContentOf(live.memfd());
    ASSERT_EQ(content.size(), 2u);
    for (const auto& [key, body] : content) {
      EXPECT_EQ(body.find_first_not_of(body.front()), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace dafs::fuse
