#include "server/store/system/working_directory.h"

#include <sched.h>
#include <unistd.h>

namespace dafs::server {
namespace {

// After this the thread shares its working directory, root and umask with no other thread.
bool HasOwn() {
  thread_local const bool own = unshare(CLONE_FS) == 0;
  return own;
}

}  // namespace

ScopedWorkingDirectory::ScopedWorkingDirectory(int directory)
    : entered_(HasOwn() && fchdir(directory) == 0) {}

ScopedWorkingDirectory::~ScopedWorkingDirectory() {
  // Normally every user may search "/". If not, the thread stays in `directory` until its next use.
  [[maybe_unused]] const int left = entered_ ? chdir("/") : 0;
}

}  // namespace dafs::server
