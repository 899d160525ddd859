// The checks of this machine.
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor_checks.h"
#include "runtime/files/unique_fd.h"
#include "runtime/files/whole_file.h"
#include "runtime/size_text.h"
#include "runtime/sockets/control_socket.h"

namespace dafs::client {
namespace {

using Json = nlohmann::ordered_json;

// FUSE 7.31, which the mount needs, came with Linux 5.4.
constexpr int kLeastMajor = 5;
constexpr int kLeastMinor = 4;
// The data buffers of one session with the defaults, which an RDMA device pins.
constexpr rlim_t kLeastMemlock = rlim_t{128} << 20;

// Empty: it cannot be read.
std::string ReadText(const std::string& path) {
  constexpr size_t kMost = 1 << 20;
  return std::string(absl::StripAsciiWhitespace(ReadWholeFile(path, kMost).value_or("")));
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace

Findings CheckFuse(const DoctorPlace& place) {
  utsname system = {};
  uname(&system);
  int major = 0, minor = 0;
  std::sscanf(system.release, "%d.%d", &major, &minor);
  if (major < kLeastMajor || (major == kLeastMajor && minor < kLeastMinor)) {
    return {{"fuse", Verdict::kFailed, absl::StrCat("the kernel is ", system.release),
             "use Linux 5.4 or later: the mount needs FUSE 7.31"}};
  }
  const std::string device = place.root + "/dev/fuse";
  const UniqueFd fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.valid()) {
    return {Ok("fuse", absl::StrCat(device, " opens, Linux ", system.release))};
  }
  const std::string why = std::strerror(errno);
  const char* remedy = "chmod 666 /dev/fuse, or run as root";
  if (errno == ENOENT || errno == ENXIO || errno == ENODEV) {
    remedy = "modprobe fuse; in a container, pass the device: --device /dev/fuse";
  } else if (errno == EPERM) {
    remedy = "the container's device rules forbid it; pass the device: --device /dev/fuse";
  }
  return {{"fuse", Verdict::kFailed, absl::StrCat(device, ": ", why), remedy}};
}

Findings CheckMountProgram(const DoctorPlace& place) {
  for (const char* path : {"/sbin/mount.dafs", "/usr/sbin/mount.dafs"}) {
    if (access((place.root + path).c_str(), X_OK) == 0) return {Ok("program", path)};
  }
  return {{"program", Verdict::kWarning, "mount(8) finds no mount.dafs",
           "install the client, or link mount.dafs into /sbin"}};
}

Findings CheckMemlock(const DoctorPlace& place) {
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string text = limit.rlim_cur == RLIM_INFINITY
                               ? "unlimited"
                               : absl::StrCat(BytesText(limit.rlim_cur), " bytes");
  if (limit.rlim_cur >= kLeastMemlock) return {Ok("memlock", text)};
  if (NamesIn(place.root + "/sys/class/infiniband").empty()) {
    return {Ok("memlock", text + "; enough without an RDMA device")};
  }
  return {{"memlock", Verdict::kWarning,
           absl::StrCat(text, "; RDMA sessions pin up to ", BytesText(kLeastMemlock), " each"),
           "set LimitMEMLOCK=infinity in the unit, or memlock in /etc/security/limits.conf"}};
}

// Only the mount option io_uring= needs it, so its absence is not a fault.
Findings CheckIoUring(const DoctorPlace& place) {
  const std::string disabled = ReadText(place.root + "/proc/sys/kernel/io_uring_disabled");
  const std::string fuse = ReadText(place.root + "/sys/module/fuse/parameters/enable_uring");
  if (disabled == "2" || (disabled == "1" && geteuid() != 0)) {
    return {Ok("io_uring", "disabled by kernel.io_uring_disabled; requests use /dev/fuse")};
  }
  if (fuse.empty()) return {Ok("io_uring", "FUSE of this kernel has none; requests use /dev/fuse")};
  if (fuse != "Y" && fuse != "1") {
    return {Ok("io_uring",
               "off in FUSE; for io_uring=on: echo Y >/sys/module/fuse/parameters/enable_uring")};
  }
  return {Ok("io_uring", "available to io_uring=on")};
}

Findings CheckRdma(const DoctorPlace& place) {
  const std::string base = place.root + "/sys/class/infiniband";
  const std::vector<std::string> devices = NamesIn(base);
  if (devices.empty()) return {Ok("rdma", "no device; sessions use TCP")};
  Findings findings;
  for (const std::string& device : devices) {
    for (const std::string& port : NamesIn(absl::StrCat(base, "/", device, "/ports"))) {
      const std::string name = absl::StrCat(device, " port ", port);
      const std::string state =
          ReadText(absl::StrCat(base, "/", device, "/ports/", port, "/state"));
      if (absl::StrContains(state, "ACTIVE")) {
        findings.push_back(Ok("rdma", absl::StrCat(name, " is active")));
      } else {
        findings.push_back({"rdma", Verdict::kWarning, absl::StrCat(name, " is in state ", state),
                            "check its cable and ip link; without it sessions use TCP"});
      }
    }
  }
  if (NamesIn(place.root + "/dev/infiniband").empty()) {
    findings.push_back({"rdma", Verdict::kWarning, "/dev/infiniband is empty",
                        "modprobe ib_uverbs rdma_ucm; in a container, pass /dev/infiniband"});
  }
  return findings;
}

Findings CheckNames(const DoctorPlace& place) {
  const std::string path = place.root + "/etc/nsswitch.conf";
  std::ifstream file(path);
  if (!file) {
    return {{"nsswitch", Verdict::kWarning, path + " cannot be read",
             "create it with at least `passwd: files`, `group: files` and `hosts: files dns`"}};
  }
  bool passwd = false, group = false, hosts = false;
  for (std::string line; std::getline(file, line);) {
    passwd |= line.starts_with("passwd:");
    group |= line.starts_with("group:");
    hosts |= line.starts_with("hosts:");
  }
  if (passwd && group && hosts) return {Ok("nsswitch", "passwd, group and hosts have sources")};
  return {{"nsswitch", Verdict::kWarning,
           absl::StrCat(path, " has no line for", passwd ? "" : " passwd", group ? "" : " group",
                        hosts ? "" : " hosts"),
           "add the line; otherwise users, groups or servers may not be found"}};
}

// Leases are counted by each machine's own clock, which must run at the right speed. Times of files
// are compared between machines.
Findings CheckClock() {
  timex clock = {};
  const int state = adjtimex(&clock);
  return {JudgeClock(state, clock.maxerror)};
}

Finding JudgeClock(int state, int64_t most_error_us) {
  if (state >= 0 && state != TIME_ERROR) {
    return Ok("clock", absl::StrCat("synchronised, off by at most ", most_error_us, " us"));
  }
  return {"clock", Verdict::kWarning, "not synchronised; times of files may differ from the server",
          "enable systemd-timesyncd or chrony on both machines"};
}

Finding CheckHandles(const std::string& name, const std::string& directory) {
  const std::string what = absl::StrCat(name, " (", directory, ")");
  struct {
    file_handle head;
    unsigned char bytes[MAX_HANDLE_SZ];
  } handle = {};
  handle.head.handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (name_to_handle_at(AT_FDCWD, directory.c_str(), &handle.head, &mount, 0) == 0) {
    return Ok("export", what + " has kernel handles");
  }
  if (errno == EOPNOTSUPP) {
    return {"export", Verdict::kWarning, what + ": its file system has no kernel handles",
            "export another file system, or clients lose open files when dafsd restarts"};
  }
  return {"export", Verdict::kFailed, absl::StrCat(what, ": ", std::strerror(errno)),
          "mount the file system, or correct the export in dafsd.conf(5)"};
}

Findings CheckExports(const DoctorPlace& place) {
  const absl::StatusOr<std::string> answer =
      AskControlSocket(place.server_socket, "json exports", "dafsd");
  if (!answer.ok()) return {};  // no dafsd here, or not ours to ask
  const Json report = Json::parse(*answer, nullptr, /*allow_exceptions=*/false);
  Findings findings;
  if (!report.is_object() || !report.contains("exports")) return findings;
  for (const Json& e : report["exports"]) {
    findings.push_back(CheckHandles(e.value("name", ""), e.value("directory", "")));
  }
  return findings;
}

}  // namespace dafs::client
