#include "fuse/caller_call.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace dafs::fuse {
namespace {

constexpr long kChownCalls[] = {
#ifdef SYS_chown
    SYS_chown, SYS_lchown,
#endif
    SYS_fchown, SYS_fchownat};

// Calls whose caller learns nothing of the attributes of what is on their paths but whether it may
// pass.
constexpr long kPassingCalls[] = {
#ifdef SYS_open
    SYS_open,       SYS_creat,     SYS_access,    SYS_unlink,   SYS_rmdir,
    SYS_mkdir,      SYS_mknod,     SYS_rename,    SYS_link,     SYS_symlink,
    SYS_chmod,      SYS_chown,     SYS_lchown,    SYS_readlink,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_openat,     SYS_faccessat, SYS_unlinkat,  SYS_mkdirat,  SYS_mknodat,
    SYS_renameat2,  SYS_linkat,    SYS_symlinkat, SYS_fchmodat, SYS_fchownat,
    SYS_readlinkat, SYS_chdir,     SYS_execve,    SYS_truncate, SYS_utimensat,
#ifdef SYS_openat2
    SYS_openat2,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
};

bool IsPassing(long call) {
  return std::find(std::begin(kPassingCalls), std::end(kPassingCalls), call) !=
         std::end(kPassingCalls);
}

// `arguments` of `call`, if it is stat(2) or one of its kin by a path; AT_EMPTY_PATH is by a
// descriptor.
bool IsStatOfPath(long call, const unsigned long (&arguments)[4]) {
  switch (call) {
#ifdef SYS_stat
    case SYS_stat:
    case SYS_lstat:
      return true;
#endif
    case SYS_newfstatat:
      return (arguments[3] & AT_EMPTY_PATH) == 0;
    case SYS_statx:
      return (arguments[2] & AT_EMPTY_PATH) == 0;
    default:
      return false;
  }
}

// "72 0x3 0x26 ...": the system call and its arguments. "running" and "-1" are none.
std::ifstream SystemCallOf(uint32_t pid, const std::string& proc) {
  return std::ifstream(proc + "/" + std::to_string(pid) + "/syscall");
}

}  // namespace

bool WaitsForOfdLock(uint32_t pid, const std::string& proc) {
  std::ifstream file = SystemCallOf(pid, proc);
  std::string number;
  std::string descriptor;
  uint64_t command = 0;  // the second argument
  if (!(file >> number >> descriptor >> std::hex >> command)) return false;
  return static_cast<uint32_t>(command) == F_OFD_SETLKW;
}

std::optional<bool> ChangesOwner(uint32_t pid, const std::string& proc) {
  std::ifstream file = SystemCallOf(pid, proc);
  long number = -1;
  if (!(file >> number) || number < 0) return std::nullopt;
  return std::find(std::begin(kChownCalls), std::end(kChownCalls), number) != std::end(kChownCalls);
}

Asks CallerCalls::AsksFor(uint32_t pid) {
  Thread& thread = threads_[pid % threads_.size()];
  if (thread.pid != pid) {
    const std::string path = proc_ + "/" + std::to_string(pid) + "/syscall";
    thread = {pid, UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  }
  char text[256];
  const ssize_t size = pread(thread.call.get(), text, sizeof(text) - 1, 0);
  if (size <= 0) {
    thread = {};  // it has ended; the number may be another's by now
    return Asks::kUnknown;
  }
  text[size] = 0;
  long call = -1;
  unsigned long arguments[4] = {};
  if (std::sscanf(text, "%ld %lx %lx %lx %lx", &call, &arguments[0], &arguments[1], &arguments[2],
                  &arguments[3]) != 5) {
    return Asks::kUnknown;  // "running"
  }
  if (IsPassing(call)) return Asks::kMayPass;
  return IsStatOfPath(call, arguments) ? Asks::kWhatItFound : Asks::kUnknown;
}

}  // namespace dafs::fuse
