#include "server/store/system/working_directory.h"

#include <sched.h>
#include <unistd.h>

namespace dafs::server {
namespace {

// From then on the thread shares working directory, root and umask with no other.
bool HasOwn() {
  thread_local const bool own = unshare(CLONE_FS) == 0;
  return own;
}

}  // namespace

ScopedWorkingDirectory::ScopedWorkingDirectory(int directory)
    : entered_(HasOwn() && fchdir(directory) == 0) {}

ScopedWorkingDirectory::~ScopedWorkingDirectory() {
  // Everybody may search "/"; where not, the thread stays until it lists the next directory.
  [[maybe_unused]] const int left = entered_ ? chdir("/") : 0;
}

}  // namespace dafs::server
