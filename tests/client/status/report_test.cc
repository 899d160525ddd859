#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/status/mount_report.h"
#include "client/status/report_json.h"
#include "client/status/report_text.h"
#include "wire/protocol/procedures.h"

namespace dafs::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(Report, ListsOutstandingCallsAndEscapesNames) {
  MountReport report;
  report.server_name = "host:/export";
  report.mount_point = "/mnt/\"quoted\"\n";
  WorkerReport& worker = report.workers.emplace_back();
  worker.name = "worker";
  worker.session.up = true;
  worker.session.peer = "127.0.0.1:20149";
  worker.session.outstanding.push_back({"LOOKUP+GETATTR_INLINE", absl::Seconds(3)});
  worker.totals[wire::Proc::kReadDirect].calls = 2;
  worker.totals[wire::Proc::kReadDirect].total = absl::Microseconds(30);
  worker.totals[wire::Proc::kOpenHandle].lost = 1;
  EXPECT_THAT(StatusText(report), HasSubstr("LOOKUP+GETATTR_INLINE for 3s"));
  EXPECT_THAT(StatsText(report), HasSubstr("READ_DIRECT"));
  EXPECT_THAT(StatsText(report), HasSubstr("15us"));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"/mnt/\\\"quoted\\\"\\n\""));
  EXPECT_THAT(StatusText(report), HasSubstr("\n  caching timed\n"));
  report.caching = Promises::Caching::kExact;
  report.promises = {.breaks = 4, .voids = 1, .break_time = absl::Milliseconds(8)};
  EXPECT_THAT(StatusText(report),
              HasSubstr("\n  caching exact, 4 changes announced, answered in 2ms on average, 1 "
                        "voids\n"));
  EXPECT_THAT(ReportJson(report),
              HasSubstr("\"caching\":\"exact\",\"promises\":{\"breaks\":4,\"break_mean_us\":2000,"
                        "\"voids\":1}"));
  EXPECT_THAT(StatusText(report), Not(HasSubstr("delegations")));
  report.delegations = {
      .read = 3, .write = 1, .local_opens = 20, .local_locks = 7, .recalls = 2, .recall_time = absl::Milliseconds(6)};
  EXPECT_THAT(StatusText(report),
              HasSubstr("\n  delegations 3 read, 1 write, 20 opens and 7 locks without a request, 2 recalled, "
                        "returned in 3ms on average\n"));
  EXPECT_THAT(ReportJson(report),
              HasSubstr("\"delegations\":{\"read\":3,\"write\":1,\"local_opens\":20,\"local_locks\":7,\"recalls\":2,"
                        "\"recall_mean_us\":3000}"));
  EXPECT_THAT(StatusText(report), Not(HasSubstr("requests by")));
  report.requests_by = "io_uring";
  EXPECT_THAT(StatusText(report), HasSubstr("\n  requests by io_uring\n"));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"requests_by\":\"io_uring\""));
  report.cpu_latency = "idle CPUs wake within 0 us";
  EXPECT_THAT(StatusText(report), HasSubstr("\n  idle CPUs wake within 0 us\n"));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"cpu_latency\":\"idle CPUs wake within 0 us\""));
  EXPECT_THAT(ReportJson(report),
              HasSubstr("\"OPEN_HANDLE\":{\"calls\":0,\"errors\":0,\"lost\":1"));
}

// Programs read these keys, so they stay.
TEST(Report, JsonHasTheKeysThatProgramsRead) {
  MountReport report;
  WorkerReport& up = report.workers.emplace_back();
  up.session.up = true;
  up.session.outstanding.push_back({"NULL", absl::Microseconds(5)});
  up.totals[wire::Proc::kNull].calls = 1;
  WorkerReport& down = report.workers.emplace_back();
  down.not_connected = "refused";
  down.waiting = "a delay";
  const std::string text = ReportJson(report);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json json = Json::parse(text);
  EXPECT_THAT(Keys(json), testing::ElementsAre("server", "mount_point", "requests_by",
                                               "cpu_latency", "lease_seconds", "quiet_us",
                                               "credentials", "caching", "promises", "delegations",
                                               "silent_workers", "workers", "procedures"));
  const Json& first = json["workers"][0];
  EXPECT_THAT(Keys(first), testing::ElementsAre("name", "connects", "session", "fetched",
                                                "reissued", "buffers"));
  EXPECT_THAT(
      Keys(first["session"]),
      testing::ElementsAre("transport", "peer", "memory", "memory_by_windows", "windows_bound",
                           "windows_ended", "passed_over", "age_us", "session_id", "trusted",
                           "checksums", "big_endian", "max_request_size", "max_response_size",
                           "max_requests", "max_credentials", "nreq", "target_nreq", "slots",
                           "slots_taken", "waiting_for_slots", "outstanding"));
  EXPECT_EQ(first["session"]["outstanding"].dump(), R"([{"procedures":"NULL","age_us":5}])");
  EXPECT_THAT(Keys(first["buffers"]), testing::ElementsAre("total", "leased", "quarantined", "kept",
                                                           "waiting", "bytes", "resident_bytes"));
  const Json& second = json["workers"][1];
  EXPECT_THAT(Keys(second), testing::ElementsAre("name", "connects", "session", "not_connected",
                                                 "not_connected_us", "waiting_for", "waiting_us",
                                                 "fetched", "reissued", "buffers"));
  EXPECT_TRUE(second["session"].is_null());
  EXPECT_EQ(json["procedures"].dump(),
            R"({"NULL":{"calls":1,"errors":0,"lost":0,"total_us":0,"longest_us":0}})");
}

TEST(Report, JsonOfANameThatIsNotUtf8IsValid) {
  MountReport report;
  report.mount_point = "/mnt/\xff";
  EXPECT_EQ(Json::parse(ReportJson(report))["mount_point"], "/mnt/\uFFFD");
}

}  // namespace
}  // namespace dafs::client
