// Finds the system call that the caller of a request is in, because the kernel sends the same
// request for some different system calls. A caller that CallerProc does not show is unknown.
// Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "fuse/request/caller_proc.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

// Whether thread `pid` is in fcntl(F_OFD_SETLKW). Returns false if that is unknown. The kernel
// sends the same request for record locks and for locks of open file descriptions (OFD; FUSE-FACTS
// 8). Only a wait for a record lock fails with EDEADLK: another process that shares the description
// may release an OFD lock.
bool WaitsForOfdLock(uint32_t pid, const CallerProc& proc);

// Whether thread `pid` is in chown(2) or a variant of it; nullopt if that is unknown. A chown(2)
// that changes neither owner nor group sends the same SETATTR as a write that clears set-id bits.
std::optional<bool> ChangesOwner(uint32_t pid, const CallerProc& proc);

// Looks up system calls of threads that make many requests, and keeps their files in /proc open.
// Belongs to one worker's thread.
class CallerCalls {
 public:
  explicit CallerCalls(CallerProc proc = CallerProc()) : proc_(std::move(proc)) {}
  const CallerProc& proc() const { return proc_; }
  // Whether `pid` is in a call that neither opens nor changes the file that its path names:
  // stat(2), readlink(2), access(2), getxattr(2) and the like. Returns false if that is unknown.
  // Costs a system call.
  bool OnlyLooks(uint32_t pid);

 private:
  struct Thread {
    uint32_t pid = 0;
    UniqueFd call;
  };
  const CallerProc proc_;
  std::array<Thread, 16> threads_;
};

}  // namespace dafs::fuse
