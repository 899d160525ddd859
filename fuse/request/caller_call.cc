#include "fuse/request/caller_call.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
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

constexpr long kLookingCalls[] = {
#ifdef SYS_stat
    SYS_stat,       SYS_lstat,     SYS_access,    SYS_readlink,
#endif
#ifdef SYS_faccessat2
    SYS_faccessat2,
#endif
    SYS_newfstatat, SYS_statx,     SYS_faccessat, SYS_readlinkat,
    SYS_getxattr,   SYS_lgetxattr, SYS_listxattr, SYS_llistxattr};

Asks OfOpen(unsigned long flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? Asks::kMayMake
                                                                    : Asks::kMayOpen;
}

// For stat(2) and its variants. With AT_EMPTY_PATH the file is named by a descriptor.
Asks OfStat(unsigned long flags) {
  return (flags & AT_EMPTY_PATH) == 0 ? Asks::kWhatItFound : Asks::kUnknown;
}

Asks AsksFor(long call, const unsigned long (&arguments)[4]) {
  switch (call) {
#ifdef SYS_open  // of older architectures
    case SYS_open:
      return OfOpen(arguments[1]);
    case SYS_stat:
    case SYS_lstat:
      return Asks::kWhatItFound;
    case SYS_access:
    case SYS_chmod:
    case SYS_chown:
    case SYS_lchown:
      return Asks::kMayPass;
    case SYS_readlink:
      return Asks::kMayOpen;
    case SYS_unlink:
    case SYS_rmdir:
    case SYS_rename:
    case SYS_link:
    case SYS_symlink:
      return Asks::kMayChange;
    case SYS_creat:
    case SYS_mkdir:
    case SYS_mknod:
      return Asks::kMayMake;
#endif
    case SYS_openat:
      return OfOpen(arguments[2]);
    case SYS_newfstatat:
      return OfStat(arguments[3]);
    case SYS_statx:
      return OfStat(arguments[2]);
    case SYS_faccessat:
#ifdef SYS_faccessat2
    case SYS_faccessat2:
#endif
    case SYS_chdir:
    case SYS_execve:
    case SYS_truncate:
    case SYS_fchmodat:
    case SYS_fchownat:
    case SYS_utimensat:
#ifdef SYS_openat2  // its flags are in the program's memory
    case SYS_openat2:
#endif
      return Asks::kMayPass;
    case SYS_readlinkat:
      return Asks::kMayOpen;
    case SYS_unlinkat:
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2:
    case SYS_linkat:
    case SYS_symlinkat:
      return Asks::kMayChange;
    case SYS_mkdirat:
    case SYS_mknodat:
      return Asks::kMayMake;
    default:
      return Asks::kUnknown;
  }
}

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

CallerCalls::SystemCall CallerCalls::CallOf(uint32_t pid) {
  if (!proc_.Shows(pid)) return {};
  Thread& thread = threads_[pid % threads_.size()];
  if (thread.pid != pid) {
    const std::string path = proc_.PathOf(pid, "syscall");
    thread = {pid, UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC))};
  }
  char text[256];
  const ssize_t size = pread(thread.call.get(), text, sizeof(text) - 1, 0);
  if (size <= 0) {
    thread = {};  // the thread has ended, and another may have its number
    return {};
  }
  text[size] = 0;
  SystemCall call;
  if (std::sscanf(text, "%ld %lx %lx %lx %lx", &call.number, &call.arguments[0], &call.arguments[1],
                  &call.arguments[2], &call.arguments[3]) != 5) {
    return {};  // "running"
  }
  return call;
}

Asks CallerCalls::AsksFor(uint32_t pid) {
  const SystemCall call = CallOf(pid);
  return fuse::AsksFor(call.number, call.arguments);
}

bool CallerCalls::OnlyLooks(uint32_t pid) {
  const long number = CallOf(pid).number;
  return std::find(std::begin(kLookingCalls), std::end(kLookingCalls), number) !=
         std::end(kLookingCalls);
}

}  // namespace dafs::fuse
