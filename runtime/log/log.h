// Writes log lines to standard error in the foreground, and to syslog(3) in a daemon. If systemd
// has connected standard error to its journal, a line begins with its severity as <N>
// (sd-daemon(3)) instead of the time and the program, which the journal records itself. One line
// per event, `what: why` with the numbers in it. Thread-safe. Takes no lock of this program, but
// may block in write(2) or syslog(3): do not call it on a data path.
#pragma once

#include <string_view>

namespace dafs {

enum class Severity {
  kError = 3,
  kWarning = 4,
  kNotice = 5,
  kInfo = 6,
  kDebug = 7
};  // as syslog(3)

// Call once at start, and again when a program becomes a daemon. `program` must outlive the
// process.
void LogToStderr(const char* program, Severity least);
void LogToSyslog(const char* program, Severity least);

// Writes "program: line", the one line on standard error that states why a program ends.
void LogFailure(const char* program, std::string_view line);

// Changes the level. Any thread.
void SetLogLevel(Severity least);

bool LogEnabled(Severity severity);
void Log(Severity severity, std::string_view line);

inline void LogError(std::string_view line) { Log(Severity::kError, line); }
inline void LogWarning(std::string_view line) { Log(Severity::kWarning, line); }
inline void LogNotice(std::string_view line) { Log(Severity::kNotice, line); }
inline void LogInfo(std::string_view line) { Log(Severity::kInfo, line); }

}  // namespace dafs
