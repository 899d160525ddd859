#include "runtime/files/null_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include "runtime/files/unique_fd.h"

namespace dafs {

void RedirectStreamsToNull() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  // A stream that was closed before may have got this number, and stays open.
  if (null > STDERR_FILENO) UniqueFd(null).Close();
}

}  // namespace dafs
