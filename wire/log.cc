#include "wire/log.h"

#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dafs {
namespace {

// Publish the set-up of main() to every thread; changed only while a program becomes a daemon.
std::atomic<const char*> program_name{"dafs"};
std::atomic<int> least_severity{static_cast<int>(Severity::kInfo)};
std::atomic<bool> use_syslog{false};

const char* Word(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNotice:
      return "notice";
    case Severity::kInfo:
      return "info";
    case Severity::kDebug:
      return "debug";
  }
  return "";
}

}  // namespace

void LogToStderr(const char* program, Severity least) {
  program_name = program;
  least_severity = static_cast<int>(least);
  use_syslog = false;
}

void LogToSyslog(const char* program, Severity least) {
  openlog(program, LOG_PID, LOG_DAEMON);
  program_name = program;
  least_severity = static_cast<int>(least);
  use_syslog = true;
}

bool LogEnabled(Severity severity) { return static_cast<int>(severity) <= least_severity; }

void Log(Severity severity, std::string_view line) {
  if (!LogEnabled(severity)) return;
  if (use_syslog) {
    syslog(static_cast<int>(severity), "%.*s", static_cast<int>(line.size()), line.data());
    return;
  }
  std::string prefix =
      absl::StrCat(absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()), " ",
                   program_name.load(), ": ", Word(severity), ": ");
  iovec parts[3] = {{prefix.data(), prefix.size()},
                    {const_cast<char*>(line.data()), line.size()},
                    {const_cast<char*>("\n"), 1}};
  // One writev per line, so that lines of several threads do not mix. Nothing can be done about a
  // failure.
  [[maybe_unused]] ssize_t written = writev(STDERR_FILENO, parts, 3);
}

}  // namespace dafs
