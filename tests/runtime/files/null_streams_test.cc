#include "runtime/files/null_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/unique_fd.h"

namespace dafs {
namespace {

int LowestFreeNumber() { return UniqueFd(open("/", O_RDONLY | O_CLOEXEC)).get(); }

// Runs in a child. Returns its exit code: the number of streams that are not /dev/null, or 9 if
// another descriptor is left open.
int RedirectAndCheck() {
  const int lowest = LowestFreeNumber();
  RedirectStreamsToNull();
  struct stat null;
  if (stat("/dev/null", &null) != 0) return 9;
  int others = 0;
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_rdev != null.st_rdev) ++others;
  }
  return lowest > STDERR_FILENO && LowestFreeNumber() != lowest ? 9 : others;
}

TEST(NullStreamsTest, AllStreamsAreNullAndNothingElseIsLeftOpen) {
  EXPECT_EXIT(_exit(RedirectAndCheck()), testing::ExitedWithCode(0), "");
}

TEST(NullStreamsTest, StreamThatWasClosedIsNullToo) {
  EXPECT_EXIT(
      {
        close(STDIN_FILENO);
        _exit(RedirectAndCheck());
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dafs
