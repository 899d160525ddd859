#include "fuse/request/caller_call.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

namespace dafs::fuse {
namespace {

constexpr long kChownCalls[] = {
#ifdef SYS_chown
    SYS_chown, SYS_lchown,
#endif
    SYS_fchown, SYS_fchownat};

// "72 0x3 0x26 ...": the system call and its arguments. "running" and "-1" are none.
std::ifstream SystemCallOf(uint32_t pid, const CallerProc& proc) {
  return proc.Shows(pid) ? std::ifstream(proc.PathOf(pid, "syscall")) : std::ifstream();
}

}  // namespace

bool WaitsForOfdLock(uint32_t pid, const CallerProc& proc) {
  std::ifstream file = SystemCallOf(pid, proc);
  std::string number;
  std::string descriptor;
  uint64_t command = 0;  // the second argument
  if (!(file >> number >> descriptor >> std::hex >> command)) return false;
  return static_cast<uint32_t>(command) == F_OFD_SETLKW;
}

std::optional<bool> ChangesOwner(uint32_t pid, const CallerProc& proc) {
  std::ifstream file = SystemCallOf(pid, proc);
  long number = -1;
  if (!(file >> number) || number < 0) return std::nullopt;
  return std::find(std::begin(kChownCalls), std::end(kChownCalls), number) != std::end(kChownCalls);
}

}  // namespace dafs::fuse
