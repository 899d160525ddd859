// The limit that the CPU latency QoS of the kernel gets: its value, when it applies, and on which
// machines.
#include "runtime/loop/cpu_latency.h"

#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/loop/cpu_latency_request.h"
#include "runtime/loop/loop.h"

namespace dafs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kNoLimit = 2'000'000'000;  // PM_QOS_CPU_LATENCY_DEFAULT_VALUE

// A file in place of the device. written() returns the limits written to it, in order.
class Device {
 public:
  Device() : path_(testing::TempDir() + "cpu_latency." + std::to_string(getpid())) {
    std::ofstream(path_, std::ios::trunc);
  }
  ~Device() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  std::vector<int32_t> written() const {
    std::ifstream file(path_, std::ios::binary);
    std::vector<int32_t> found;
    int32_t value;
    while (file.read(reinterpret_cast<char*>(&value), sizeof(value))) found.push_back(value);
    return found;
  }
  std::unique_ptr<CpuLatency> Open(absl::Duration longest = absl::ZeroDuration()) const {
    auto latency = CpuLatency::Open(longest, path_);
    EXPECT_TRUE(latency.ok()) << latency.status();
    return *std::move(latency);
  }

 private:
  std::string path_;
};

TEST(CpuLatencyTest, LimitAppliesFromTheFirstHoldToTheLastRelease) {
  Device device;
  auto latency = device.Open(absl::Microseconds(7));
  EXPECT_THAT(device.written(), IsEmpty());
  latency->Hold();
  latency->Hold();
  EXPECT_THAT(device.written(), ElementsAre(7));
  latency->Release();
  EXPECT_THAT(device.written(), ElementsAre(7));
  latency->Release();
  EXPECT_THAT(device.written(), ElementsAre(7, kNoLimit));
}

TEST(CpuLatencyTest, ParsesWordsAndMicroseconds) {
  EXPECT_FALSE(ParseCpuLatency("auto")->wanted.has_value());
  EXPECT_EQ(ParseCpuLatency("off")->wanted, false);
  EXPECT_EQ(ParseCpuLatency("0")->wanted, true);
  EXPECT_EQ(ParseCpuLatency("10000")->longest, absl::Milliseconds(10));
  for (const char* bad : {"", "on", "-1", "10001", "7us", " 7", "99999999999999999999"}) {
    EXPECT_EQ(ParseCpuLatency(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

struct Case {
  const char* option;
  const char* driver;
  long cpus;
  bool held;
  const char* said;
};

TEST(CpuLatencyTest, AutoAppliesToFewVirtualCpusAndAnExplicitLimitToAll) {
  Device device;
  for (const Case& each : {
           Case{"auto", "haltpoll", 2, true, "within 0 us"},
           Case{"auto", "haltpoll", 8, true, "within 0 us"},
           Case{"auto", "haltpoll", 9, false, "9 CPUs"},
           Case{"auto", "haltpoll", 1, false, "one CPU"},
           Case{"auto", "intel_idle", 4, false, "not the CPUs of a KVM guest"},
           Case{"auto", "none", 2, false, "not the CPUs of a KVM guest"},
           Case{"auto", "", 2, false, "not the CPUs of a KVM guest"},
           Case{"off", "haltpoll", 2, false, "off"},
           Case{"2", "intel_idle", 64, true, "within 2 us"},
       }) {
    std::string said;
    auto latency = CpuLatency::For(*ParseCpuLatency(each.option), {each.driver, each.cpus},
                                   device.path(), &said);
    EXPECT_EQ(latency != nullptr, each.held) << each.option << ", " << each.driver;
    EXPECT_THAT(said, HasSubstr(each.said));
  }
}

TEST(CpuLatencyTest, WithoutTheDeviceThereIsNoLimitAndTheReasonIsReported) {
  std::string said;
  EXPECT_EQ(CpuLatency::For(*ParseCpuLatency("0"), {"haltpoll", 2}, "/no/such/device", &said),
            nullptr);
  EXPECT_THAT(said, HasSubstr("/no/such/device"));
  EXPECT_THAT(said, HasSubstr("No such file"));
}

TEST(CpuLatencyRequestTest, HoldsTheLimitOnlyWhileTurnsAreDense) {
  Device device;
  auto latency = device.Open();
  CpuLatencyRequest hold(latency.get());
  absl::Time now = absl::UnixEpoch();
  // Runs the turns of one round. Returns the result of IsBusy, or false if it was not due.
  auto turn = [&] {
    bool busy = false;
    for (uint32_t i = 0; i < CpuLatencyRequest::kTurns; ++i) {
      if (hold.Turned()) busy = hold.IsBusy(now);
    }
    return busy;
  };
  EXPECT_FALSE(turn());  // the first round: its duration is unknown
  now += CpuLatencyRequest::kWithin;
  EXPECT_FALSE(turn());  // not dense
  now += CpuLatencyRequest::kWithin / 2;
  ASSERT_TRUE(turn());
  hold.Hold();
  EXPECT_TRUE(hold.holds());
  EXPECT_THAT(device.written(), ElementsAre(0));
  EXPECT_FALSE(turn()) << "the limit is held: the check is not due";
  EXPECT_TRUE(hold.Look());
  EXPECT_FALSE(hold.Look()) << "no turn since the last check";
  EXPECT_FALSE(hold.holds());
  EXPECT_THAT(device.written(), ElementsAre(0, kNoLimit));
}

TEST(CpuLatencyRequestTest, ReleasesInItsDestructor) {
  Device device;
  auto latency = device.Open();
  {
    CpuLatencyRequest hold(latency.get());
    hold.Hold();
  }
  EXPECT_THAT(device.written(), ElementsAre(0, kNoLimit));
}

TEST(CpuLatencyRequestTest, WithoutALimitNoTurnIsCounted) {
  CpuLatencyRequest hold(nullptr);
  for (uint32_t i = 0; i < 4 * CpuLatencyRequest::kTurns; ++i) EXPECT_FALSE(hold.Turned());
}

// Posts to itself, so that every turn has work.
void Turn(Loop& loop, int* turns) {
  if (--*turns > 0) loop.Post([&loop, turns] { Turn(loop, turns); });
}

void BeBusy(Loop& loop) {
  int turns = 10 * CpuLatencyRequest::kTurns;
  Turn(loop, &turns);
  while (turns > 0) loop.RunOnce(absl::ZeroDuration());
}

TEST(LoopTest, BusyLoopHoldsTheLimitUntilItIsIdle) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  ASSERT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
  if (CPU_COUNT(&cpus) < 2) GTEST_SKIP() << "one CPU: the loop never holds the limit";
  Device device;
  auto latency = device.Open();
  auto loop = Loop::Create({.cpu_latency = latency.get()});
  ASSERT_TRUE(loop.ok());
  // Where other programs use the CPUs, the turns may not be dense at once, or the loop may look
  // idle in between.
  for (int i = 0; i < 1000 && device.written().empty(); ++i) BeBusy(**loop);
  ASSERT_FALSE(device.written().empty());
  EXPECT_EQ(device.written().front(), 0);
  // The loop sleeps until the check that finds it idle.
  for (int i = 0; i < 4 && device.written().back() != kNoLimit; ++i) {
    (*loop)->RunOnce(absl::InfiniteDuration());
  }
  EXPECT_EQ(device.written().back(), kNoLimit);
}

TEST(LoopTest, ThreadBoundToOneCpuHoldsNoLimit) {
  cpu_set_t before;
  CPU_ZERO(&before);
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  Device device;
  auto latency = device.Open();
  auto loop = Loop::Create({.cpu_latency = latency.get()});
  ASSERT_TRUE(loop.ok());
  BeBusy(**loop);
  EXPECT_THAT(device.written(), IsEmpty());
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace dafs
