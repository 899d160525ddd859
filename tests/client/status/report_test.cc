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

TEST(Report, NamesTheUsersWhoHaveSessions) {
  MountReport report;
  EXPECT_THAT(StatusText(report), Not(HasSubstr("sessions of")));
  report.users = {{.uid = 1000, .opens = 2, .quiet = absl::Seconds(3)},
                  {.uid = 1001, .opens = 0, .quiet = absl::InfiniteDuration()}};
  EXPECT_THAT(StatusText(report), HasSubstr("  sessions of 2 users\n"
                                            "    user 1000: 2 open files, last answer 3s ago\n"
                                            "    user 1001: 0 open files, no answer yet\n"));
  EXPECT_EQ(
      Json::parse(ReportJson(report))["users"].dump(),
      R"([{"uid":1000,"opens":2,"quiet_us":3000000},{"uid":1001,"opens":0,"quiet_us":null}])");
  report.users.resize(25);
  EXPECT_THAT(StatusText(report), HasSubstr("    and 5 more\n"));
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
  worker.totals[wire::Proc::kReadDirect].time.Add(absl::Microseconds(10));
  worker.totals[wire::Proc::kReadDirect].time.Add(absl::Microseconds(20));
  worker.totals[wire::Proc::kOpenHandle].lost = 1;
  EXPECT_THAT(StatusText(report), HasSubstr("LOOKUP+GETATTR_INLINE for 3s"));
  EXPECT_THAT(StatsText(report), HasSubstr("READ_DIRECT"));
  EXPECT_THAT(StatsText(report), HasSubstr("15us"));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"/mnt/\\\"quoted\\\"\\n\""));
  EXPECT_THAT(StatusText(report), HasSubstr("\n  caching timed\n"));
  report.caching = Promises::Caching::kExact;
  report.promises.voids = 1;
  report.promises.breaks.Add(absl::Milliseconds(2), 4);
  EXPECT_THAT(StatusText(report),
              HasSubstr("\n  caching exact, 4 changes announced, answered in 2ms on average, 1 "
                        "voids\n"));
  EXPECT_THAT(ReportJson(report),
              HasSubstr("\"caching\":\"exact\",\"promises\":{\"breaks\":4,\"break_total_us\":8000,"
                        "\"break_mean_us\":2000,"));
  EXPECT_THAT(StatusText(report), Not(HasSubstr("delegations")));
  report.delegations = {.read = 3,
                        .write = 1,
                        .local_opens = 20,
                        .local_locks = 7,
                        .recalls = 2,
                        .returns = LatencyHistogram()};
  report.delegations.returns.Add(absl::Milliseconds(3), 2);
  EXPECT_THAT(
      StatusText(report),
      HasSubstr(
          "\n  delegations 3 read, 1 write, 20 opens and 7 locks without a request, 2 recalled, "
          "returned in 3ms on average\n"));
  EXPECT_THAT(ReportJson(report),
              HasSubstr("\"delegations\":{\"read\":3,\"write\":1,\"local_opens\":20,"
                        "\"local_locks\":7,\"recalls\":2,\"recall_total_us\":6000,"
                        "\"recall_mean_us\":3000,"));
  EXPECT_THAT(StatusText(report), Not(HasSubstr("requests by")));
  report.requests_by = "io_uring";
  EXPECT_THAT(StatusText(report), HasSubstr("\n  requests by io_uring\n"));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"requests_by\":\"io_uring\""));
  report.cpu_latency = "idle CPUs wake within 0 us";
  EXPECT_THAT(StatusText(report), HasSubstr("\n  idle CPUs wake within 0 us\n"));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"cpu_latency\":\"idle CPUs wake within 0 us\""));
  EXPECT_THAT(ReportJson(report), HasSubstr("\"OPEN_HANDLE\":{\"calls\":0,\"errors\":0,"));
}

TEST(Report, AddsTheCountersOfAllWorkers) {
  MountReport report;
  for (int i = 1; i <= 2; ++i) {
    wire::ProcedureTotals& one = report.workers.emplace_back().totals[wire::Proc::kWriteDirect];
    one.time.Add(absl::Microseconds(100 * i), 2);
    one.errors = 1;
    one.lost = 2;
    one.retries = 3;
    one.sent_bytes = 2048;
    one.received_bytes = 100;
    one.queued = 1;
    one.queue_time = absl::Microseconds(40);
  }
  const Json json = Json::parse(ReportJson(report));
  EXPECT_EQ(json["procedures"].dump(),
            R"({"WRITE_DIRECT":{"calls":4,"errors":2,"sent_bytes":4096,"received_bytes":200,)"
            R"("queued":2,"queue_us":80,"total_us":600,"mean_us":150,"p50_us":128,"p99_us":200,)"
            R"("longest_us":200,"buckets":[0,0,0,0,0,0,0,2,2],"lost":4,"retries":6}})");
  EXPECT_EQ(json["bucket_bounds_us"].size(), LatencyHistogram::kBuckets - 1);
  const std::string text = StatsText(report);
  EXPECT_THAT(text, HasSubstr("retries"));
  EXPECT_THAT(text, HasSubstr("4.0K"));
  EXPECT_THAT(text, HasSubstr("150us"));
}

TEST(Report, NamesPendingOperationsTheOldestFirst) {
  MountReport report;
  report.slow = absl::Seconds(2);
  WorkerReport& first = report.workers.emplace_back();
  first.outstanding_operations = 5;
  first.operations = {{"READ", "/dir/a", 12, "fio", 1000, absl::Seconds(3)}};
  WorkerReport& second = report.workers.emplace_back();
  second.outstanding_operations = 1;
  second.slow_operations = 7;
  second.operations = {{"WRITE", "", 0, "", 0, absl::Seconds(4)}};
  EXPECT_THAT(StatusText(report),
              HasSubstr("  waiting for 4s: WRITE of an unknown file by an unknown process (pid 0, "
                        "uid 0)\n  waiting for 3s: READ of /dir/a by fio (pid 12, uid 1000)\n"
                        "  4 more operations in progress\n"));
  const Json json = Json::parse(ReportJson(report));
  EXPECT_EQ(json["calls_outstanding"], 6);
  EXPECT_EQ(json["calls_in_hand"], 6);
  EXPECT_EQ(json["slow_us"], 2000000);
  EXPECT_EQ(json["slow_operations"], 7);
  EXPECT_EQ(json["calls"][1].dump(),
            R"({"operation":"READ","file":"/dir/a","pid":12,"process":"fio","uid":1000,)"
            R"("age_us":3000000})");
}

// Shows DAFS-A.5-01 (the client's part): which server each session reached.
TEST(Report, ShowsTheIdentityOfTheServerIfItSaysOne) {
  MountReport report;
  SessionReport& session = report.workers.emplace_back().session;
  session.up = true;
  EXPECT_THAT(StatusText(report), testing::Not(HasSubstr("instance")));
  session.server_id = "0102";
  session.instance = 7;
  session.cluster_id = "files";
  EXPECT_THAT(StatusText(report), HasSubstr("    server 0102, instance 7, cluster files\n"));
  const Json json = Json::parse(ReportJson(report))["workers"][0]["session"];
  EXPECT_EQ(json["server_id"], "0102");
  EXPECT_EQ(json["instance"], 7);
  EXPECT_EQ(json["cluster_id"], "files");
}

// Programs read these keys, so they stay.
TEST(Report, JsonHasTheKeysThatProgramsRead) {
  MountReport report;
  WorkerReport& up = report.workers.emplace_back();
  up.session.up = true;
  up.session.outstanding.push_back({"NULL", absl::Microseconds(5)});
  up.totals[wire::Proc::kNull].time.Add(absl::Microseconds(5));
  WorkerReport& down = report.workers.emplace_back();
  down.not_connected = "refused";
  down.waiting = "a delay";
  const std::string text = ReportJson(report);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const Json json = Json::parse(text);
  EXPECT_THAT(Keys(json),
              testing::ElementsAre("server", "mount_point", "requests_by", "cpu_latency", "up_us",
                                   "restarts", "restarted_at", "lease_seconds", "quiet_us",
                                   "credentials", "caching", "promises", "delegations", "log_level",
                                   "slow_us", "slow_operations", "calls_outstanding",
                                   "calls_in_hand", "calls", "silent_workers", "paths", "workers",
                                   "users", "bucket_bounds_us", "procedures"));
  const Json& first = json["workers"][0];
  EXPECT_THAT(Keys(first), testing::ElementsAre("name", "connects", "session", "fetched",
                                                "reissued", "buffers"));
  EXPECT_THAT(Keys(first["session"]),
              testing::ElementsAre(
                  "transport", "peer", "memory", "memory_by_windows", "windows_bound",
                  "windows_ended", "passed_over", "age_us", "session_id", "server_id", "instance",
                  "cluster_id", "trusted", "checksums", "big_endian", "max_request_size",
                  "max_response_size", "max_requests", "max_credentials", "nreq", "target_nreq",
                  "slots", "slots_taken", "waiting_for_slots", "outstanding"));
  EXPECT_EQ(first["session"]["outstanding"].dump(), R"([{"procedures":"NULL","age_us":5}])");
  EXPECT_THAT(Keys(first["buffers"]),
              testing::ElementsAre("total", "leased", "quarantined", "kept", "waiting", "waits",
                                   "wait_us", "bytes", "resident_bytes"));
  const Json& second = json["workers"][1];
  EXPECT_THAT(Keys(second), testing::ElementsAre("name", "connects", "session", "not_connected",
                                                 "not_connected_us", "waiting_for", "waiting_us",
                                                 "fetched", "reissued", "buffers"));
  EXPECT_TRUE(second["session"].is_null());
  EXPECT_THAT(Keys(json["procedures"]["NULL"]),
              testing::ElementsAre("calls", "errors", "sent_bytes", "received_bytes", "queued",
                                   "queue_us", "total_us", "mean_us", "p50_us", "p99_us",
                                   "longest_us", "buckets", "lost", "retries"));
}

TEST(Report, JsonOfANameThatIsNotUtf8IsValid) {
  MountReport report;
  report.mount_point = "/mnt/\xff";
  EXPECT_EQ(Json::parse(ReportJson(report))["mount_point"], "/mnt/\uFFFD");
}

}  // namespace
}  // namespace dafs::client
