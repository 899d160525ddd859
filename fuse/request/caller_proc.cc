#include "fuse/request/caller_proc.h"

#include <unistd.h>

#include <utility>

namespace dafs::fuse {
namespace {

// In the /proc of this process's PID namespace, the link `self` is the result of getpid(2).
bool ShowsOwnPids(const std::string& proc) {
  char self[32];
  const ssize_t size = readlink((proc + "/self").c_str(), self, sizeof(self));
  return size > 0 && std::string_view(self, static_cast<size_t>(size)) == std::to_string(getpid());
}

}  // namespace

CallerProc::CallerProc(std::string directory)
    : directory_(std::move(directory)), is_ours_(ShowsOwnPids(directory_)) {}

std::string CallerProc::PathOf(uint32_t pid, std::string_view file) const {
  return (directory_ + "/" + std::to_string(pid) + "/").append(file);
}

}  // namespace dafs::fuse
