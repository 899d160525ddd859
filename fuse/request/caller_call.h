// What system call the caller of a request is in: some that mean different things come from the
// kernel in the same words. Nothing is known of a caller that CallerProc does not show. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "fuse/request/caller_proc.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

// Whether thread `pid` is in fcntl(F_OFD_SETLKW). False if that cannot be told. Record locks and
// locks of open file descriptions (OFD) look alike (FUSE-FACTS 8), but only a wait for a record
// lock fails with EDEADLK: an OFD lock may be given up by somebody other than who waits.
bool WaitsForOfdLock(uint32_t pid, const CallerProc& proc);

// Whether thread `pid` is in chown(2) or one of its kin; nothing if that cannot be told. One that
// changes neither owner nor group looks like the word that a write takes set-id bits away.
std::optional<bool> ChangesOwner(uint32_t pid, const CallerProc& proc);

// Why a call asks for the attributes of a node on its path.
enum class Asks : uint8_t {
  kUnknown,      // cannot be told, or by a descriptor: the answer may be for the program
  kWhatItFound,  // whether its caller may pass; of the last name, for the program too: stat(2)
  kMayPass,      // whether its caller may pass, or do something with the last: access(2), chmod(2)
  // The same, and the server is asked to do what the call is for, so that its word is the last:
  kMayOpen,    // open(2), readlink(2)
  kMayChange,  // what may ask for the right to change a directory: unlink(2), rename(2)
  kMayMake,    // and makes something in it: mkdir(2), open(2) with O_CREAT
};

// The same question for the threads that ask often, whose files in /proc stay open.
// Belongs to one worker's thread.
class CallerCalls {
 public:
  explicit CallerCalls(CallerProc proc = CallerProc()) : proc_(std::move(proc)) {}
  const CallerProc& proc() const { return proc_; }
  // What thread `pid` asks for. Costs a system call.
  Asks AsksFor(uint32_t pid);
  // Whether it is in a call that neither opens nor changes what its path leads to: stat(2),
  // readlink(2), access(2), getxattr(2) and the like. False if that is not known. Costs a system
  // call.
  bool OnlyLooks(uint32_t pid);

 private:
  struct SystemCall {
    long number = -1;  // -1: not known
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
