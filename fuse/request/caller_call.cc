#include "fuse/request/caller_call.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace dafs::fuse {
namespace {

constexpr long kChownCalls[] = {
#ifdef SYS_chown
    SYS_chown, SYS_lchown,
#endif
    SYS_fchown, SYS_fchownat};

constexpr long kLookingCalls[] = {
#ifdef SYS_stat
    SYS_stat,       SYS_lstat,     SYS_access,    SYS_readlink,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
    SYS_newfstatat, SYS_statx,     SYS_faccessat, SYS_readlinkat,
    SYS_getxattr,   SYS_lgetxattr, SYS_listxattr, SYS_llistxattr};

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

bool CallerCalls::OnlyLooks(uint32_t pid) {
  if (!proc_.Shows(pid)) return false;
  Thread& thread = threads_[pid % threads_.size()];
  if (thread.pid != pid) {
    const std::string path = proc_.PathOf(pid, "syscall");
    thread = {pid, UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  }
  char text[256];
  const ssize_t size = pread(thread.call.get(), text, sizeof(text), 0);
  if (size <= 0) {
    thread = {};  // the thread has ended, and another may have its number
    return false;
  }
  long number = -1;
  if (std::from_chars(text, text + size, number).ec != std::errc()) return false;  // "running"
  return std::find(std::begin(kLookingCalls), std::end(kLookingCalls), number) !=
         std::end(kLookingCalls);
}

}  // namespace dafs::fuse
