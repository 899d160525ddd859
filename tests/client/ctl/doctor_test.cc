// Each check of dafsctl doctor, in a place where it fails and in one where it does not.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timex.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor_checks.h"
#include "runtime/files/unique_fd.h"

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

TEST_F(DoctorTest, AClockThatIsNotSynchronisedIsReported) {
  for (const int state : {-1, TIME_ERROR}) {
    const Finding wrong = Last({JudgeClock(state, 16'000'000)}, "clock");
    EXPECT_EQ(wrong.verdict, Verdict::kWarning);
    EXPECT_THAT(wrong.remedy, HasSubstr("chrony"));
  }
  const Finding right = Last({JudgeClock(TIME_OK, 17)}, "clock");
  EXPECT_EQ(right.verdict, Verdict::kOk);
  EXPECT_THAT(right.found, HasSubstr("17 us"));
}

// A network of its own, in which nothing is reachable until `lo` is up.
class DoctorNetworkTest : public DoctorTest {
 protected:
  // Runs `test` on a thread whose network is new.
  void InNewNetwork(const std::function<void()>& test) {
    bool is_new = false;
    std::thread([&] {
      is_new = unshare(CLONE_NEWNET) == 0;
      if (is_new) test();
    }).join();
    if (!is_new) GTEST_SKIP() << "needs a network namespace of its own";
  }
  static void SetLoopback(short flags, int mtu) {
    const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request = {};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_mtu = mtu;
    ASSERT_EQ(ioctl(fd.get(), SIOCSIFMTU, &request), 0);
    request.ifr_flags = flags;
    ASSERT_EQ(ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
  }
};

TEST_F(DoctorNetworkTest, WithoutARouteThePortIsNotTried) {
  InNewNetwork([] {
    const Finding none = Last(CheckServer("192.0.2.1:2049"), "route");
    EXPECT_EQ(none.verdict, Verdict::kFailed);
    EXPECT_THAT(none.found, HasSubstr("unreachable"));
    EXPECT_THAT(none.remedy, HasSubstr("ip route add"));
  });
}

TEST_F(DoctorNetworkTest, ALowMtuIsReportedWithItsDevice) {
  InNewNetwork([] {
    for (const int mtu : {1000, 1500}) {
      SetLoopback(IFF_UP, mtu);
      const Findings findings = CheckServer("127.0.0.1:1");
      const auto found = std::find_if(findings.begin(), findings.end(),
                                      [](const Finding& one) { return one.check == "mtu"; });
      ASSERT_NE(found, findings.end());
      EXPECT_EQ(found->verdict, mtu < 1500 ? Verdict::kWarning : Verdict::kOk);
      EXPECT_THAT(found->found, HasSubstr(absl::StrCat(mtu, " bytes on lo")));
      EXPECT_EQ(found->remedy, mtu < 1500 ? "raise it: ip link set lo mtu 1500" : "");
    }
  });
}

}  // namespace
}  // namespace dafs::client
