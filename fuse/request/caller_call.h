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

// Why a system call requests the attributes of a node on its path.
enum class Asks : uint8_t {
  kUnknown,      // unknown, or by a descriptor: the program may see the answer
  kWhatItFound,  // to check permissions, and to return the last node's attributes: stat(2)
  kMayPass,      // to check permissions on the path or the last node: access(2), chmod(2)
  // Likewise, but a request to the server follows, which checks permissions itself:
  kMayOpen,    // open(2), readlink(2)
  kMayChange,  // may need the right to change a directory: unlink(2), rename(2)
  kMayMake,    // and creates something in it: mkdir(2), open(2) with O_CREAT
};

// Looks up system calls of threads that make many requests, and keeps their files in /proc open.
// Belongs to one worker's thread.
class CallerCalls {
 public:
  explicit CallerCalls(CallerProc proc = CallerProc()) : proc_(std::move(proc)) {}
  const CallerProc& proc() const { return proc_; }
  // Returns why thread `pid` requests attributes. Costs a system call.
  Asks AsksFor(uint32_t pid);
  // Whether `pid` is in a call that neither opens nor changes the file that its path names:
  // stat(2), readlink(2), access(2), getxattr(2) and the like. Returns false if that is unknown.
  // Costs a system call.
  bool OnlyLooks(uint32_t pid);

 private:
  struct SystemCall {
    long number = -1;  // -1: unknown
    unsigned long arguments[4] = {};
  };
  SystemCall CallOf(uint32_t pid);

  struct Thread {
    uint32_t pid = 0;
    UniqueFd call;
  };
  const CallerProc proc_;
  std::array<Thread, 16> threads_;
};

}  // namespace dafs::fuse
