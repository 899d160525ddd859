// The lines that the log writes to standard error.
#include "runtime/log/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace dafs {
namespace {

using testing::MatchesRegex;

std::string IdOfStderr() {
  struct stat found = {};
  fstat(STDERR_FILENO, &found);
  return absl::StrCat(found.st_dev, ":", found.st_ino);
}

// Returns what `action` writes to standard error, which is the journal if `journal` is set.
template <class Action>
std::string Written(bool journal, Action action) {
  testing::internal::CaptureStderr();
  setenv("JOURNAL_STREAM", journal ? IdOfStderr().c_str() : "1:1", 1);
  LogToStderr("name", Severity::kNotice);
  action();
  unsetenv("JOURNAL_STREAM");
  LogToStderr("name", Severity::kInfo);
  return testing::internal::GetCapturedStderr();
}

TEST(LogTest, JournalLinesCarryOnlyTheSeverity) {
  EXPECT_EQ(Written(true,
                    [] {
                      LogError("a");
                      LogWarning("b");
                      LogNotice("c");
                      LogInfo("d");  // below the configured severity
                    }),
            "<3>a\n<4>b\n<5>c\n");
  EXPECT_EQ(Written(true, [] { LogFailure("name", "why"); }), "<3>why\n");
}

TEST(LogTest, OtherStreamsCarryTimeAndProgram) {
  EXPECT_THAT(Written(false, [] { LogWarning("b"); }), MatchesRegex("[0-9:.]+ name: warning: b\n"));
  EXPECT_EQ(Written(false, [] { LogFailure("name", "why"); }), "name: why\n");
}

}  // namespace
}  // namespace dafs
