// Where the programs say what they are doing: standard error in the foreground, syslog(3) as
// daemons. Where systemd connected standard error with its journal, a line carries its severity as
// <N> (sd-daemon(3)) in place of the time and the program, which the journal knows. One line per
// event, `what: why` with the numbers in it (STYLE). Thread-safe; never
// blocks on a lock of ours, may block in write(2) or syslog(3), so it is not for data paths.
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

// To be called once at start, and again when a program becomes a daemon. `program` outlives the
// process.
void LogToStderr(const char* program, Severity least);
void LogToSyslog(const char* program, Severity least);

// For the one line on standard error that says why a program ends: "program: line".
void LogFailure(const char* program, std::string_view line);

bool LogEnabled(Severity severity);
void Log(Severity severity, std::string_view line);

inline void LogError(std::string_view line) { Log(Severity::kError, line); }
inline void LogWarning(std::string_view line) { Log(Severity::kWarning, line); }
inline void LogNotice(std::string_view line) { Log(Severity::kNotice, line); }
inline void LogInfo(std::string_view line) { Log(Severity::kInfo, line); }

}  // namespace dafs
