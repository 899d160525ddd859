// The /proc in which the threads that the kernel names as callers are found. The kernel gives pids
// as the PID namespace of mount.dafs knows them. A /proc of another namespace, as after
// unshare --pid without --mount-proc, has other threads under these numbers: it is not looked at.
// A value; any thread. Made by the process that reads, not by one that forks it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dafs::fuse {

class CallerProc {
 public:
  // `directory`: where /proc is, for tests.
  explicit CallerProc(std::string directory = "/proc");

  // Whether thread `pid` can be looked at while it lives. Not if the kernel gives 0 for it, which
  // it does for one that is not visible in our PID namespace.
  bool Shows(uint32_t pid) const { return pid != 0 && is_ours_; }
  // The path of a file of thread `pid`, which Shows: "/proc/12/status".
  std::string PathOf(uint32_t pid, std::string_view file) const;

 private:
  std::string directory_;
  bool is_ours_;
};

}  // namespace dafs::fuse
