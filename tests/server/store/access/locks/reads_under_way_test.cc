// Reads that a LOCK awaits. Spec: 4.4.1.2.
#include "server/store/access/locks/reads_under_way.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace dafs::server {
namespace {

constexpr absl::Duration kWhile = absl::Milliseconds(20);

ObjectKey File(uint8_t number) {
  ObjectKey key;
  key.bytes[0] = number;
  return key;
}

// Awaits the reads of a file on a thread of its own.
class Awaiting {
 public:
  explicit Awaiting(const ObjectKey& file)
      : thread_([this, file] {
          ReadUnderWay::Await(file);
          ended_.Notify();
        }) {}
  ~Awaiting() { thread_.join(); }

  bool Ends() { return ended_.WaitForNotificationWithTimeout(absl::Seconds(30)); }
  bool EndsSoon() { return ended_.WaitForNotificationWithTimeout(kWhile); }

 private:
  absl::Notification ended_;
  std::thread thread_;
};

TEST(ReadUnderWayTest, ReadsOfTheFileAreAwaited) {
  std::optional<ReadUnderWay> read(std::in_place, File(1));
  Awaiting awaiting(File(1));
  EXPECT_FALSE(awaiting.EndsSoon());
  read.reset();
  EXPECT_TRUE(awaiting.Ends());
}

TEST(ReadUnderWayTest, ReadsOfOtherFilesAreNot) {
  const ReadUnderWay read(File(1));
  EXPECT_TRUE(Awaiting(File(2)).Ends());
}

TEST(ReadUnderWayTest, LaterReadsAreNot) {
  std::optional<ReadUnderWay> read(std::in_place, File(1));
  Awaiting awaiting(File(1));
  EXPECT_FALSE(awaiting.EndsSoon());
  read.reset();
  read.emplace(File(1));
  EXPECT_TRUE(awaiting.Ends());
}

TEST(ReadUnderWayTest, ThreadsThatHaveEndedLeaveNothing) {
  for (int i = 0; i < 100; ++i) std::thread([] { const ReadUnderWay read(File(1)); }).join();
  ReadUnderWay::Await(File(1));
}

// Each reader sees the flag or is awaited: after Await, none that has not seen it still reads.
TEST(ReadUnderWayTest, NoReadEscapesAFlagSetBefore) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> forbidden{false};
    std::atomic<bool> awaited{false};
    std::atomic<int> escaped{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
      readers.emplace_back([&] {
        while (true) {
          const ReadUnderWay read(File(1));
          if (forbidden.load()) return;
          if (awaited.load()) ++escaped;
        }
      });
    }
    forbidden = true;
    ReadUnderWay::Await(File(1));
    awaited = true;
    for (std::thread& reader : readers) reader.join();
    ASSERT_EQ(escaped, 0) << round;
  }
}

}  // namespace
}  // namespace dafs::server
