#include "client/ctl/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "client/ctl/live_text.h"

namespace dafs::client {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json Procedure(int calls, int total_us) {
  return {{"calls", calls},
          {"errors", 1},
          {"sent_bytes", 100},
          {"received_bytes", calls * 4096},
          {"queue_us", calls * 10},
          {"total_us", total_us},
          {"buckets", {0, 0, 0, 0, 0, 0, 0, calls}},  // 64 to 128 us
          {"lost", 0},
          {"retries", 0}};
}

Json Mount(int64_t up_us, Json procedures) {
  Json mount = {{"server", "host:/e"},
                {"mount_point", "/mnt"},
                {"up_us", up_us},
                {"calls_outstanding", 3},
                {"procedures", std::move(procedures)}};
  mount["workers"] = {{{"connects", 3},
                       {"buffers", {{"waiting", 2}}},
                       {"session", {{"nreq", 16}, {"slots_taken", 4}, {"waiting_for_slots", 1}}}},
                      {{"connects", 1}, {"session", nullptr}}};
  return mount;
}

TEST(Figures, AreTheDifferenceOfTwoReports) {
  const Json before = Mount(10'000'000, {{"READ_DIRECT", Procedure(100, 8000)}});
  const Json now =
      Mount(12'000'000, {{"READ_DIRECT", Procedure(300, 28000)}, {"LOOKUP", Procedure(50, 5000)}});
  const MountFigures figures = FiguresOf(before, now, 2);
  EXPECT_EQ(figures.name, "host:/e on /mnt");
  EXPECT_DOUBLE_EQ(figures.reads.calls, 100);
  EXPECT_DOUBLE_EQ(figures.reads.received_bytes, 200 * 4096 / 2.0);
  EXPECT_DOUBLE_EQ(figures.reads.rtt_us, 100);
  EXPECT_DOUBLE_EQ(figures.reads.queue_us, 10);
  EXPECT_GE(figures.reads.p99_us, 64);
  EXPECT_LE(figures.reads.p99_us, 128);
  EXPECT_DOUBLE_EQ(figures.reads.errors, 0);
  EXPECT_DOUBLE_EQ(figures.writes.calls, 0);
  EXPECT_DOUBLE_EQ(figures.writes.rtt_us, 0);
  EXPECT_DOUBLE_EQ(figures.others.calls, 25);
  EXPECT_DOUBLE_EQ(figures.all.calls, 125);
  EXPECT_EQ(figures.credits, 16u);
  EXPECT_EQ(figures.in_use, 4u);
  EXPECT_EQ(figures.waiting, 3u);
  EXPECT_EQ(figures.calls_outstanding, 3u);
  EXPECT_EQ(figures.reconnects, 2u);
  EXPECT_EQ(figures.sessions_down, 1u);
}

TEST(Figures, FirstReportAndNewMountCountFromTheStart) {
  const Json now = Mount(10'000'000, {{"WRITE_INLINE", Procedure(100, 8000)}});
  EXPECT_DOUBLE_EQ(FiguresOf(Json(), now, 1).writes.calls, 10);
  const Json earlier_mount = Mount(900'000'000, {{"WRITE_INLINE", Procedure(7000, 8000)}});
  EXPECT_DOUBLE_EQ(FiguresOf(earlier_mount, now, 1).writes.calls, 10);
}

TEST(Figures, CountsThatAnOlderProgramLacksAreZero) {
  Json now = Mount(1'000'000, {{"NULL", {{"calls", 2}, {"total_us", 20}}}});
  const MountFigures figures = FiguresOf(Json(), now, 1);
  EXPECT_DOUBLE_EQ(figures.others.calls, 2);
  EXPECT_DOUBLE_EQ(figures.others.p99_us, 0);
  now.erase("up_us");
  EXPECT_DOUBLE_EQ(FiguresOf(Json(), now, 1).others.calls, 0);  // in an unknown time
  EXPECT_DOUBLE_EQ(FiguresOf(Json(), now, 1).others.rtt_us, 10);
}

TEST(Figures, ClientsAreSortedByTheirLoad) {
  const auto client = [](const char* id, int requests) {
    return Json{{"id", id},
                {"name", std::string("client ") + id},
                {"age_us", 10'000'000},
                {"requests", requests},
                {"received_bytes", 10 * requests},
                {"sent_bytes", 0},
                {"opens", 1},
                {"locks", 2}};
  };
  Json before, now;
  before["clients"] = {client("a", 1000), client("b", 0), client("d", 500)};
  now["clients"] = {client("a", 1010), client("b", 100), client("c", 300), client("d", 20)};
  const auto figures = ClientsOf(before, now, 2);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[0].name, "client b");
  EXPECT_DOUBLE_EQ(figures[0].requests, 50);
  EXPECT_DOUBLE_EQ(figures[0].received_bytes, 500);
  EXPECT_EQ(figures[1].name, "client c");  // new: since it came
  EXPECT_DOUBLE_EQ(figures[1].requests, 30);
  EXPECT_DOUBLE_EQ(figures[3].requests, 0);  // one of its sessions has ended
  EXPECT_THAT(ClientsText(figures, 1), HasSubstr("client b\n3 more clients\n"));
}

TEST(LiveText, ShowsWhatTheColumnsSay) {
  const MountFigures figures =
      FiguresOf(Json(), Mount(1'000'000, {{"READ_DIRECT", Procedure(200, 20000)}}), 1);
  const std::string top = TopText({figures});
  EXPECT_THAT(top, HasSubstr("CALLS/s"));
  EXPECT_THAT(top, HasSubstr("100us"));
  EXPECT_THAT(top, HasSubstr("800K"));
  EXPECT_THAT(top, HasSubstr("4/16"));
  EXPECT_THAT(top, HasSubstr("host:/e on /mnt (1 sessions down)\n"));
  const std::string iostat = IostatText(figures);
  EXPECT_THAT(iostat, HasSubstr("host:/e on /mnt:\n"));
  EXPECT_THAT(iostat, HasSubstr("avg RTT (ms)"));
  EXPECT_THAT(iostat, HasSubstr("200.000      800.000      4.000"));
  EXPECT_THAT(iostat, HasSubstr("0.100        0.110         0.010"));
}

}  // namespace
}  // namespace dafs::client
