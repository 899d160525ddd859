#include "client/ctl/server_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/names/location.h"
#include "runtime/host_name.h"

namespace dafs::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kExports[] = R"({"exports":[{"name":"/data"},{"name":"/home"}]})";

std::string Listening(const std::string& at) { return "{\"listens\":[" + at + "]}"; }

absl::StatusOr<std::vector<names::Location>> Found(const std::string& at, std::string path,
                                                   std::string host = "") {
  RecordsRequest request;
  request.path = std::move(path);
  request.host = std::move(host);
  return LocationsOf(request, Listening(at), kExports);
}

names::Location Tcp(const std::string& host, uint16_t port, const std::string& path) {
  return {names::kIwarp, host, port, path, "1.0"};
}

TEST(ServerRecordsTest, EachListenerIsALocationWithItsVersion) {
  const auto found = Found(R"("tcp:192.0.2.1:20149","tcp:[2001:db8::1]:7","rdma:192.0.2.1:20149")",
                           "/data/below/");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(
      *found,
      ElementsAre(Tcp("192.0.2.1", 20149, "/data/below"), Tcp("2001:db8::1", 7, "/data/below"),
                  names::Location{names::kRdma, "192.0.2.1", 20149, "/data/below", "1.0"}));
}

TEST(ServerRecordsTest, AListenerOfAllAddressesHasTheNameOfTheMachine) {
  const std::string machine = HostName();
  EXPECT_THAT(*Found(R"("tcp:0.0.0.0:20149","tcp:[::]:20149")", "/"),
              ElementsAre(Tcp(machine, 20149, "/")));
}

// Shows DAFS-A.5-05 (with the scenario names_recorded).
TEST(ServerRecordsTest, AGivenHostJoinsTheListenersOfOnePort) {
  EXPECT_THAT(
      *Found(R"("tcp:192.0.2.1:20149","tcp:192.0.2.2:20149","tcp:192.0.2.1:7")", "/home", "files"),
      ElementsAre(Tcp("files", 20149, "/home"), Tcp("files", 7, "/home")));
}

TEST(ServerRecordsTest, OnlyExportedPathsHaveRecords) {
  for (const char* const path : {"/dat", "/data2", "/other"}) {
    const absl::Status status = Found(R"("tcp:192.0.2.1:7")", path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr("its exports: /data /home"));
  }
  EXPECT_THAT(std::string(Found(R"("tcp:192.0.2.1:7")", "/data/../x").status().message()),
              HasSubstr("'.' or '..'"));
  EXPECT_THAT(std::string(Found(R"("tcp:192.0.2.1:7")", "/data/\xff").status().message()),
              HasSubstr("UTF-8"));
}

TEST(ServerRecordsTest, PathsAboveAndBelowAnExportAreServed) {
  const std::string at = Listening(R"("tcp:192.0.2.1:7")");
  RecordsRequest request;
  for (const char* const path : {"/", "/a", "/a/b", "/a/b/c"}) {
    request.path = path;
    EXPECT_TRUE(LocationsOf(request, at, R"({"exports":[{"name":"/a/b"}]})").ok()) << path;
    EXPECT_TRUE(LocationsOf(request, at, R"({"exports":[{"name":"/"}]})").ok()) << path;
  }
}

TEST(ServerRecordsTest, AHostIsANameOrAnAddressThatCanBeReached) {
  for (const char* const host : {"files", "files.example.com.", "192.0.2.1", "2001:db8::1"}) {
    EXPECT_TRUE(Found(R"("tcp:192.0.2.1:7")", "/", host).ok()) << host;
  }
  for (const char* const host : {"files:20149", "[::1]", "0.0.0.0", "::", "a b", "x:y"}) {
    EXPECT_FALSE(Found(R"("tcp:192.0.2.1:7")", "/", host).ok()) << host;
  }
}

TEST(ServerRecordsTest, OtherReportsAreErrors) {
  RecordsRequest request;
  for (const char* const status :
       {"", "x", "[]", "{}", R"({"listens":1})", R"({"listens":[1]})", R"({"listens":["tcp:"]})",
        R"({"listens":["7"]})", R"({"listens":["tcp:h:99999"]})"}) {
    EXPECT_FALSE(LocationsOf(request, status, kExports).ok()) << status;
  }
  for (const char* const exports : {"", "{}", R"({"exports":{}})", R"({"exports":[{"name":7}]})"}) {
    RecordsRequest below;
    below.path = "/data";
    EXPECT_FALSE(LocationsOf(below, Listening(R"("tcp:192.0.2.1:7")"), exports).ok()) << exports;
  }
}

}  // namespace
}  // namespace dafs::client
