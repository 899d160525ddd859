#include "runtime/log/log.h"

#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/log/log_level.h"

namespace dafs {
namespace {

// Make the settings visible to every thread. All but the level change only when a program becomes
// a daemon.
std::atomic<const char*> program_name{"dafs"};
std::atomic<int> least_severity{static_cast<int>(Severity::kInfo)};
std::atomic<bool> use_syslog{false};
std::atomic<bool> use_journal{false};

// Whether standard error is the stream that systemd names in $JOURNAL_STREAM, as DEVICE:INODE. The
// variable alone is not enough: a child that redirected its standard error inherits it.
bool StderrIsJournal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat error_stream;
  return stream != nullptr && fstat(STDERR_FILENO, &error_stream) == 0 &&
         absl::StrCat(error_stream.st_dev, ":", error_stream.st_ino) == stream;
}

// Uses one writev per line, so that lines of several threads do not mix. Ignores a failure.
void WriteLine(std::string prefix, std::string_view line) {
  iovec parts[3] = {{prefix.data(), prefix.size()},
                    {const_cast<char*>(line.data()), line.size()},
                    {const_cast<char*>("\n"), 1}};
  [[maybe_unused]] ssize_t written = writev(STDERR_FILENO, parts, 3);
}

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

std::string_view LogLevelName() { return Word(static_cast<Severity>(least_severity.load())); }

absl::StatusOr<std::string> ChangeLogLevel(std::string_view name) {
  for (const Severity least : {Severity::kError, Severity::kWarning, Severity::kNotice,
                               Severity::kInfo, Severity::kDebug}) {
    if (name != Word(least)) continue;
    const std::string said = absl::StrCat("log level set to ", Word(least));
    LogNotice(said);  // before the new level can hide it
    SetLogLevel(least);
    return said + "\n";
  }
  return absl::InvalidArgumentError("log: give error, warning, notice, info or debug");
}

void LogToStderr(const char* program, Severity least) {
  program_name = program;
  least_severity = static_cast<int>(least);
  use_syslog = false;
  use_journal = StderrIsJournal();
}

void LogToSyslog(const char* program, Severity least) {
  openlog(program, LOG_PID, LOG_DAEMON);
  program_name = program;
  least_severity = static_cast<int>(least);
  use_syslog = true;
}

void SetLogLevel(Severity least) { least_severity = static_cast<int>(least); }

bool LogEnabled(Severity severity) { return static_cast<int>(severity) <= least_severity; }

void Log(Severity severity, std::string_view line) {
  if (!LogEnabled(severity)) return;
  if (use_syslog) {
    syslog(static_cast<int>(severity), "%.*s", static_cast<int>(line.size()), line.data());
    return;
  }
  if (use_journal) return WriteLine(absl::StrCat("<", static_cast<int>(severity), ">"), line);
  WriteLine(absl::StrCat(absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()), " ",
                         program_name.load(), ": ", Word(severity), ": "),
            line);
}

void LogFailure(const char* program, std::string_view line) {
  WriteLine(StderrIsJournal() ? "<3>" : absl::StrCat(program, ": "), line);
}

}  // namespace dafs
