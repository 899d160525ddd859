// The command line and the configuration file of dafsd.
#include "server/daemon/config_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "server/daemon/config_file.h"

namespace dafs::server {
namespace {

TEST(ConfigTest, ParsesEveryOption) {
  auto config = ParseConfig({"--export",
                             "/a=/srv/a,rw,no_root_squash",
                             "--export",
                             "/b=/srv/b,ro",
                             "--listen",
                             "tcp:127.0.0.1:1234",
                             "--listen=rdma:[::1]:5",
                             "--state-dir",
                             "/var/lib/dafs",
                             "-f",
                             "--threads",
                             "3",
                             "--max-requests=17",
                             "--lease-time",
                             "30",
                             "--message-memory=64",
                             "--stable=power",
                             "--spin=0",
                             "--rdma-read-channel=required",
                             "--promises=0",
                             "--undo-space=3",
                             "--delegations=read",
                             "--max-delegations=5",
                             "--recall-time=2.5",
                             "--tls-cert=/c",
                             "--tls-key=/k",
                             "--tls-ca=/ca",
                             "--admin-socket=/run/x.sock"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server.exports.size(), 2u);
  EXPECT_EQ(config->server.exports[1].name, "/b");
  EXPECT_TRUE(config->server.exports[1].read_only);
  ASSERT_EQ(config->server.listen.size(), 2u);
  EXPECT_EQ(config->server.listen[0].address.ToString(), "127.0.0.1:1234");
  EXPECT_EQ(config->server.listen[1].transport, Transport::kRdma);
  EXPECT_EQ(config->server.listen[1].address.ToString(), "[::1]:5");
  EXPECT_TRUE(config->foreground);
  EXPECT_EQ(config->server.workers, 3u);
  EXPECT_EQ(config->server.max_requests, 17u);
  EXPECT_EQ(config->server.lease_time, absl::Seconds(30));
  EXPECT_EQ(config->server.message_memory_bytes, size_t{64} << 20);
  EXPECT_EQ(config->pid_file, "/var/lib/dafs/dafsd.pid");
  EXPECT_EQ(config->server.stable, Stable::kPower);
  EXPECT_EQ(config->server.spin, absl::ZeroDuration());
  EXPECT_EQ(config->server.rdma_read_channel, RdmaReadChannel::kRequired);
  EXPECT_EQ(config->server.max_promises, 0u);
  EXPECT_EQ(config->server.undo_space_bytes, uint64_t{3} << 20);
  EXPECT_EQ(config->server.delegations.most, Delegations::Type::kRead);
  EXPECT_EQ(config->server.delegations.of_client, 5u);
  EXPECT_EQ(config->server.recall_time, absl::Seconds(2.5));
  EXPECT_TRUE(config->server.tls.is_server);
  EXPECT_EQ(config->server.tls.cert_file, "/c");
  EXPECT_EQ(config->server.tls.key_file, "/k");
  EXPECT_EQ(config->server.tls.ca_file, "/ca");
  EXPECT_EQ(config->server.admin_socket, "/run/x.sock");
  EXPECT_FALSE(config->server.is_admin_socket_default);
}

TEST(ConfigTest, CommandLineOverridesTheFile) {
  char path[] = "/tmp/dafsd-conf-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << "# exports\n"
                         "export = /a=/srv/a,ro,clients=10.0.0.0/8\n"
                         "export = /b=/srv/b\n"
                         "\n"
                         "state-dir = /var/lib/dafs\n"
                         "max-requests = 5\n"
                         "  foreground\n";
  auto config = ParseConfig({"--max-requests", "6", "--export=/c=/srv/c", "--config", path});
  unlink(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server.exports.size(), 3u);
  EXPECT_EQ(config->server.exports[0].clients.size(), 1u);
  EXPECT_EQ(config->server.max_requests, 6u);
  EXPECT_EQ(config->server.stable, Stable::kProcess);
  EXPECT_TRUE(config->foreground);
}

// A configuration file that is removed at the end.
class ConfigFile {
 public:
  ConfigFile() { close(mkstemp(path_)); }
  ~ConfigFile() { unlink(path_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/dafsd-conf-XXXXXX";
};

TEST(ConfigTest, ExportsAreReadAgain) {
  ConfigFile file;
  file.Write("export = /a=/srv/a\nmax-requests = 5\n");
  const std::vector<std::string> arguments = {"--export=/c=/srv/c", "--config", file.path()};
  std::vector<std::string> others;
  auto exports = ReadExports(arguments, &others);
  ASSERT_TRUE(exports.ok()) << exports.status();
  EXPECT_EQ(exports->size(), 2u);
  EXPECT_THAT(others, testing::ElementsAre("--max-requests=5"));
  file.Write("export = /a=/srv/a,ro\nexport = /b=/srv/b\n");
  exports = ReadExports(arguments);
  ASSERT_TRUE(exports.ok()) << exports.status();
  ASSERT_EQ(exports->size(), 3u);
  EXPECT_TRUE((*exports)[0].read_only);
  EXPECT_EQ((*exports)[2].name, "/c");
}

TEST(ConfigTest, AMistakeInTheExportsIsReportedWithItsLine) {
  ConfigFile file;
  const std::vector<std::string> arguments = {"--export=/c=/srv/c", "--config=" + file.path()};
  const auto message = [&](const std::string& text) {
    file.Write(text);
    return std::string(ReadExports(arguments).status().message());
  };
  using testing::HasSubstr;
  using testing::StartsWith;
  EXPECT_THAT(message("\nexport = /a=/srv/a,rx\n"), StartsWith(file.path() + ":2: "));
  EXPECT_THAT(message("export = /a=/srv/a\n# again\nexport = /a=/srv/b\nexport = /b=/srv/b\n"),
              testing::AllOf(StartsWith(file.path() + ":3: "), HasSubstr("given twice")));
  EXPECT_THAT(message("export = /a=/srv/a\nexport = /c/x=/srv/b\n"),
              testing::AllOf(StartsWith("command line: "), HasSubstr("/c/x")));
  EXPECT_THAT(message("exports = /a=/srv/a\n"), StartsWith(file.path() + ":1: "));
  file.Write("export = /a=/srv/a\nexport = /b=/srv/b\n");
  EXPECT_EQ(WithPlaceOfExport(arguments, "export /b=/srv/b: it is missing"),
            file.path() + ":2: export /b=/srv/b: it is missing");
  EXPECT_EQ(WithPlaceOfExport(arguments, "export /c=/srv/c: it is missing"),
            "export /c=/srv/c: it is missing");
}

TEST(ConfigTest, CpuLatencyIsAWordOrMicroseconds) {
  auto wish = [](const std::string& text) {
    auto config = ParseConfig({"--export=/a=/srv/a", "--state-dir=/x", "--cpu-latency=" + text});
    EXPECT_TRUE(config.ok()) << config.status();
    return config->server.cpu_latency;
  };
  EXPECT_FALSE(wish("auto").wanted.has_value());
  EXPECT_EQ(wish("off").wanted, false);
  EXPECT_EQ(wish("3").longest, absl::Microseconds(3));
}

TEST(ConfigTest, ClusterIdIsAName) {
  auto config = ParseConfig({"--export=/a=/srv/a", "--state-dir=/x", "--cluster-id=files"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server.cluster_id, "files");
  for (const std::string& wrong : {std::string("a b"), std::string("\n"), std::string(256, 'a')}) {
    EXPECT_FALSE(ParseConfig({"--export=/a=/srv", "--state-dir=/x", "--cluster-id=" + wrong}).ok());
  }
}

TEST(ConfigTest, ReportsMistakesInOptions) {
  auto message = [](std::vector<std::string> arguments) {
    auto config = ParseConfig(arguments);
    EXPECT_FALSE(config.ok());
    std::string text(config.status().message());
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  };
  using testing::HasSubstr;
  EXPECT_THAT(message({}), HasSubstr("--export"));
  EXPECT_THAT(message({"--export", "/a=/srv"}), HasSubstr("--state-dir"));
  EXPECT_THAT(message({"--export", "/a=/srv,rx", "--state-dir=/x"}), HasSubstr("rx"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--listen", "udp:1.2.3.4"}),
              HasSubstr("udp:1.2.3.4"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--bogus"}), HasSubstr("bogus"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--threads", "many"}),
              HasSubstr("threads"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--stable=disk"}),
              HasSubstr("process or power"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--export-cache=1000000000"}),
              HasSubstr("--export-cache 1000000000: this machine has "));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--spin=10001"}),
              HasSubstr("--spin"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--cpu-latency=soon"}),
              HasSubstr("--cpu-latency soon: expected auto, off or"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--rdma-read-channel=yes"}),
              HasSubstr("rdma-read-channel"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--tls-cert=/c"}),
              HasSubstr("--tls-cert and --tls-key are needed together"));
  EXPECT_THAT(message({"--export", "/a=/srv", "--state-dir=/x", "--tls-ca=/c"}),
              HasSubstr("--tls-ca needs --tls-cert"));
  EXPECT_THAT(message({"--config", "/nonexistent/dafsd.conf"}), HasSubstr("/nonexistent"));
  EXPECT_THAT(std::string(ParseConfigFile("ok = 1\n[section]\n", "f").status().message()),
              HasSubstr("f:2"));
  EXPECT_THAT(std::string(ParseConfigFile("config = x", "f").status().message()), HasSubstr("f:1"));
}

TEST(ConfigTest, ReportsMistakesInTheFileWithFileAndLine) {
  auto message = [](const std::string& line) {
    char path[] = "/tmp/dafsd-conf-XXXXXX";
    const int fd = mkstemp(path);
    EXPECT_GE(fd, 0);
    close(fd);
    std::ofstream(path) << "export = /a=/srv/a\nstate-dir = /x\n\n" << line << "\nspin = 1\n";
    auto config = ParseConfig({"--config", path});
    unlink(path);
    EXPECT_FALSE(config.ok()) << line;
    const std::string text(config.status().message());
    const std::string place = std::string(path) + ":4: ";
    EXPECT_EQ(text.substr(0, place.size()), place) << line;
    return text.substr(std::min(text.size(), place.size()));
  };
  using testing::HasSubstr;
  using testing::StartsWith;
  EXPECT_THAT(message("bogus = 1"), StartsWith("unknown key `bogus`"));
  EXPECT_THAT(message("bogus"), StartsWith("unknown key `bogus`"));
  EXPECT_THAT(message("threads = many"), HasSubstr("--threads"));
  EXPECT_THAT(message("threads"), HasSubstr("--threads"));
  EXPECT_THAT(message("export = /b=/srv/b,rx"), HasSubstr("rx"));
  EXPECT_THAT(message("listen = udp:1.2.3.4"), HasSubstr("udp:1.2.3.4"));
  EXPECT_THAT(message("stable = disk"), HasSubstr("process or power"));
  EXPECT_THAT(message("lease-time = 0"), HasSubstr("--lease-time"));
  EXPECT_THAT(message("recall-time = 0.5"), HasSubstr("--recall-time: 1 to 60"));
  EXPECT_THAT(message("recall-time = 61"), HasSubstr("--recall-time: 1 to 60"));
  EXPECT_THAT(message("delegations = all"), HasSubstr("delegations"));
  EXPECT_THAT(message("cpu-latency = soon"), HasSubstr("--cpu-latency soon"));
  EXPECT_THAT(message("rdma-read-channel = yes"), HasSubstr("rdma-read-channel"));
  EXPECT_THAT(message("help"), HasSubstr("command line"));
  EXPECT_THAT(message("[section]"), HasSubstr("[section]"));
}

TEST(ConfigTest, AdminSocketIsForRootUnlessItIsNamedOrNone) {
  auto socket_of = [](const char* option) {
    auto config = ParseConfig({"--export", "/a=/srv/a", "--state-dir", "/s", option});
    EXPECT_TRUE(config.ok()) << config.status();
    return config->server.admin_socket;
  };
  EXPECT_EQ(socket_of("-f"), geteuid() == 0 ? "/run/dafs/dafsd.sock" : "");
  EXPECT_EQ(socket_of("--admin-socket=none"), "");
  EXPECT_EQ(socket_of("--admin-socket=a"), "a");
}

TEST(ConfigTest, ReturnsTextForHelpAndVersion) {
  auto help = ParseConfig({"--help"});
  ASSERT_TRUE(help.ok());
  EXPECT_THAT(help->answer, testing::HasSubstr("--export"));
  auto version = ParseConfig({"--version"});
  ASSERT_TRUE(version.ok());
  EXPECT_THAT(version->answer, testing::HasSubstr("dafsd"));
}

}  // namespace
}  // namespace dafs::server
