#include "fuse/lock_kind.h"

#include <fcntl.h>

#include <fstream>

namespace dafs::fuse {

bool WaitsForOfdLock(uint32_t pid, const std::string& proc) {
  // "72 0x3 0x26 ...": the system call and its arguments, of which the second is the command.
  std::ifstream file(proc + "/" + std::to_string(pid) + "/syscall");
  std::string number;
  std::string descriptor;
  uint64_t command = 0;
  if (!(file >> number >> descriptor >> std::hex >> command)) return false;
  return static_cast<uint32_t>(command) == F_OFD_SETLKW;
}

}  // namespace dafs::fuse
