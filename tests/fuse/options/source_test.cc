#include "fuse/options/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dafs::fuse {
namespace {

using ::testing::HasSubstr;

struct SourceCase {
  std::string text, host;
  uint16_t port;
  std::string path;
};

TEST(ParseSource, AcceptsNamesAndAddressesWithAndWithoutPort) {
  const SourceCase cases[] = {
      {"server:/data", "server", 0, "/data"},
      {"server:20150:/data", "server", 20150, "/data"},
      {"192.0.2.1:/a/b", "192.0.2.1", 0, "/a/b"},
      {"[::1]:/e", "::1", 0, "/e"},
      {"[::1]:20149:/e", "::1", 20149, "/e"},
      {"[fe80::1%eth0]:/e", "fe80::1%eth0", 0, "/e"},
      {"server:/", "server", 0, "/"},
      {"server://", "server", 0, "/"},
      {"server:/data/", "server", 0, "/data"},
      {"server:/with:colon", "server", 0, "/with:colon"},
      {"server:1:/with:/colon", "server", 1, "/with:/colon"},
      {"server:/with space", "server", 0, "/with space"},
      {"server:/a/..b/.c/d.", "server", 0, "/a/..b/.c/d."},
  };
  for (const SourceCase& c : cases) {
    absl::StatusOr<Source> source = ParseSource(c.text);
    ASSERT_TRUE(source.ok()) << c.text << ": " << source.status();
    EXPECT_EQ(source->text, c.text);
    EXPECT_EQ(source->host, c.host) << c.text;
    EXPECT_EQ(source->port, c.port) << c.text;
    EXPECT_EQ(source->export_path, c.path) << c.text;
  }
}

// Shows DAFS-A.6-01 (a server is known without a name service).
TEST(ParseSource, TextWithoutColonAndSlashIsAName) {
  const absl::StatusOr<Source> name = ParseSource("projects");
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_TRUE(name->is_name);
  EXPECT_EQ(name->text, "projects");
  EXPECT_FALSE(ParseSource("server:/data")->is_name);
  EXPECT_FALSE(ParseSource(std::string(256, 'a')).ok());
  EXPECT_FALSE(ParseSource("a\nb").ok());
}

TEST(ParseSource, RefusesSourcesWithoutAValidExport) {
  for (const char* text :
       {"", "/data", "server:", "server:data", ":/data", "[::1]/e", "[::1:/e", "[]:/e", "::1:/e",
        "server:0:/e", "server:65536:/e", "server:x:/e", "server:-1:/e", "a/b:/c", "server:/a/../b",
        "server:/..", "server:/a/./b", "server:/a/.."}) {
    absl::StatusOr<Source> source = ParseSource(text);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(source.status().message()), HasSubstr("bad source")) << text;
  }
}

}  // namespace
}  // namespace dafs::fuse
