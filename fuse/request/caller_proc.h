// The /proc directory that shows the callers of requests. The kernel numbers callers in the PID
// namespace of mount.dafs. The /proc of another namespace, as after unshare --pid without
// --mount-proc, shows other threads under these numbers, so it is not used.
// A value; any thread. Must be made in the process that uses it, not before a fork(2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dafs::fuse {

class CallerProc {
 public:
  // Tests pass another `directory`.
  explicit CallerProc(std::string directory = "/proc");

  // Whether thread `pid` can be found while it lives. False for 0, which the kernel sends for a
  // thread that is not visible in the PID namespace of mount.dafs.
  bool Shows(uint32_t pid) const { return pid != 0 && is_ours_; }
  // Returns the path of a file of thread `pid`, such as "/proc/12/status". Requires Shows(pid).
  std::string PathOf(uint32_t pid, std::string_view file) const;

 private:
  std::string directory_;
  bool is_ours_;
};

}  // namespace dafs::fuse
