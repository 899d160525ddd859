// Each check of dafsctl doctor, in a place where it fails and in one where it does not.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor_checks.h"
#include "runtime/unique_fd.h"

namespace dafs::client {
namespace {

using ::testing::HasSubstr;

class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() {
    std::string path = ::testing::TempDir() + "/doctor.XXXXXX";
    place_.root = mkdtemp(path.data());
  }
  ~DoctorTest() override { std::filesystem::remove_all(place_.root); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = place_.root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // The last finding, which is of `check`. Whatever is not well has a remedy.
  static Finding Last(const Findings& findings, const char* check) {
    EXPECT_FALSE(findings.empty());
    if (findings.empty()) return {};
    for (const Finding& one : findings) {
      EXPECT_EQ(one.remedy.empty(), one.verdict == Verdict::kOk) << one.found;
    }
    EXPECT_EQ(findings.back().check, check);
    return findings.back();
  }

  DoctorPlace place_;
};

TEST_F(DoctorTest, FuseFailsWithoutADevice) {
  const Finding absent = Last(CheckFuse(place_), "fuse");
  EXPECT_EQ(absent.verdict, Verdict::kFailed);
  EXPECT_THAT(absent.remedy, HasSubstr("modprobe fuse"));
  std::filesystem::create_directories(place_.root + "/dev/fuse");  // not even root may write it
  const Finding unusable = Last(CheckFuse(place_), "fuse");
  EXPECT_EQ(unusable.verdict, Verdict::kFailed);
  EXPECT_THAT(unusable.remedy, HasSubstr("chmod"));
}

TEST_F(DoctorTest, FuseIsWellIfTheDeviceOpens) {
  Write("/dev/fuse", "");
  EXPECT_EQ(Last(CheckFuse(place_), "fuse").verdict, Verdict::kOk);
}

TEST_F(DoctorTest, ProgramIsMissedInSbin) {
  EXPECT_EQ(Last(CheckMountProgram(place_), "program").verdict, Verdict::kWarning);
  Write("/usr/sbin/mount.dafs", "");
  EXPECT_EQ(Last(CheckMountProgram(place_), "program").verdict,
            Verdict::kWarning);  // not executable
  std::filesystem::permissions(place_.root + "/usr/sbin/mount.dafs",
                               std::filesystem::perms::owner_all);
  EXPECT_EQ(Last(CheckMountProgram(place_), "program").verdict, Verdict::kOk);
}

TEST_F(DoctorTest, ALowMemlockMattersOnlyWithAnRdmaDevice) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit tiny = {.rlim_cur = 64 << 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &tiny), 0);
  EXPECT_EQ(Last(CheckMemlock(place_), "memlock").verdict, Verdict::kOk);
  Write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  const Finding low = Last(CheckMemlock(place_), "memlock");
  EXPECT_EQ(low.verdict, Verdict::kWarning);
  EXPECT_THAT(low.found, HasSubstr("64K"));
  EXPECT_THAT(low.remedy, HasSubstr("LimitMEMLOCK"));
  EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST_F(DoctorTest, RdmaPortsShouldBeActiveAndTheirDevicesPresent) {
  EXPECT_EQ(Last(CheckRdma(place_), "rdma").verdict, Verdict::kOk);
  Write("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  Write("/dev/infiniband/uverbs0", "");
  const Finding down = Last(CheckRdma(place_), "rdma");
  EXPECT_EQ(down.verdict, Verdict::kWarning);
  EXPECT_THAT(down.found, HasSubstr("mlx5_0 port 1 is in state 1: DOWN"));
  Write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  EXPECT_EQ(Last(CheckRdma(place_), "rdma").verdict, Verdict::kOk);
  std::filesystem::remove_all(place_.root + "/dev");
  EXPECT_THAT(Last(CheckRdma(place_), "rdma").remedy, HasSubstr("ib_uverbs"));
}

TEST_F(DoctorTest, IoUringIsReportedAndNeverAFault) {
  const auto found = [this] {
    const Finding one = Last(CheckIoUring(place_), "io_uring");
    EXPECT_EQ(one.verdict, Verdict::kOk);
    return one.found;
  };
  EXPECT_THAT(found(), HasSubstr("has none"));
  Write("/sys/module/fuse/parameters/enable_uring", "N\n");
  EXPECT_THAT(found(), HasSubstr("echo Y"));
  Write("/sys/module/fuse/parameters/enable_uring", "Y\n");
  EXPECT_THAT(found(), HasSubstr("available"));
  Write("/proc/sys/kernel/io_uring_disabled", "2\n");
  EXPECT_THAT(found(), HasSubstr("io_uring_disabled"));
}

TEST_F(DoctorTest, NsswitchNeedsSources) {
  EXPECT_EQ(Last(CheckNames(place_), "nsswitch").verdict, Verdict::kWarning);
  Write("/etc/nsswitch.conf", "passwd: files\nhosts: files dns\n");
  EXPECT_THAT(Last(CheckNames(place_), "nsswitch").found, HasSubstr("no line for group"));
  Write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
  EXPECT_EQ(Last(CheckNames(place_), "nsswitch").verdict, Verdict::kOk);
}

TEST_F(DoctorTest, AnExportNeedsItsDirectoryAndKernelHandles) {
  EXPECT_EQ(CheckHandles("/data", place_.root + "/absent").verdict, Verdict::kFailed);
  const Finding none = CheckHandles("/sys", "/proc/self/fd");
  EXPECT_EQ(none.verdict, Verdict::kWarning) << none.found;
  EXPECT_THAT(none.found, HasSubstr("no kernel handles"));
}

// A TCP port of this machine without a listener until Listen is called.
class ServerPort {
 public:
  ServerPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    socklen_t size = sizeof(at);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&at), &size);
    name_ = absl::StrCat("127.0.0.1:", ntohs(at.sin_port));
  }
  void Listen() { EXPECT_EQ(listen(fd_.get(), 8), 0); }
  const std::string& name() const { return name_; }

 private:
  UniqueFd fd_;
  std::string name_;
};

TEST_F(DoctorTest, AClosedPortIsRefused) {
  const ServerPort port;
  const Finding refused = Last(CheckServer(port.name()), "port");
  EXPECT_EQ(refused.verdict, Verdict::kFailed);
  EXPECT_THAT(refused.remedy, HasSubstr("start dafsd"));
}

TEST_F(DoctorTest, APortThatDoesNotSpeakTheProtocolFails) {
  ServerPort port;
  port.Listen();  // and never answers
  const Findings findings = CheckServer(port.name());
  const Finding silent = Last(findings, "protocol");
  EXPECT_EQ(silent.verdict, Verdict::kFailed);
  ASSERT_GE(findings.size(), 4u);
  EXPECT_EQ(findings[1].check, "route");
  EXPECT_THAT(findings[1].found, HasSubstr(" by lo"));
  EXPECT_EQ(findings[2].check, "mtu");
}

TEST_F(DoctorTest, AnUnknownNameAndABadAddressFail) {
  EXPECT_EQ(Last(CheckServer("[::1"), "name").verdict, Verdict::kFailed);
  EXPECT_EQ(Last(CheckServer("no-such-host.invalid"), "name").verdict, Verdict::kFailed);
}

}  // namespace
}  // namespace dafs::client
