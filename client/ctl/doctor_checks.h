// The checks of `dafsctl doctor`. Each looks at one thing, and reports what it found and, unless
// all is well, what to do. None changes anything. Called on one thread. CheckServer blocks for at
// most kDoctorPatience for each address.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/tls_arguments.h"

namespace dafs::client {

enum class Verdict : uint8_t { kOk, kWarning, kFailed };

struct Finding {
  std::string check;  // "memlock"
  Verdict verdict = Verdict::kOk;
  std::string found;
  std::string remedy;  // empty if all is well
};
using Findings = std::vector<Finding>;

inline Finding Ok(const char* check, std::string found) {
  return {.check = check, .verdict = Verdict::kOk, .found = std::move(found), .remedy = ""};
}

// Where the checks look; tests pass another place.
struct DoctorPlace {
  std::string root;  // before /dev, /etc, /proc, /sys and /sbin
  std::string server_socket = "/run/dafs/dafsd.sock";
};

inline constexpr absl::Duration kDoctorPatience = absl::Seconds(3);

// This machine as a client.
Findings CheckFuse(const DoctorPlace& place);
Findings CheckMountProgram(const DoctorPlace& place);
Findings CheckMemlock(const DoctorPlace& place);
Findings CheckIoUring(const DoctorPlace& place);
Findings CheckRdma(const DoctorPlace& place);
Findings CheckNames(const DoctorPlace& place);  // nsswitch.conf(5)
Findings CheckClock();

// This machine as a server: the exports of the dafsd that runs here. None: nothing is reported.
Findings CheckExports(const DoctorPlace& place);

// The way to `server` ("host", "host:port"): name, route, device and MTU, port, protocol.
Findings CheckServer(const std::string& server, const TlsArguments& tls = {});

// The parts of the above that tests call by themselves.
// `state`: the return value of adjtimex(2). `most_error_us`: how far the clock may be off.
Finding JudgeClock(int state, int64_t most_error_us);
// A directory that is, or will be, exported: whether its file system has handles that last.
Finding CheckHandles(const std::string& name, const std::string& directory);

}  // namespace dafs::client
