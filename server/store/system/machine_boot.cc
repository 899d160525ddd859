#include "server/store/system/machine_boot.h"

#include <fstream>
#include <string>

#include "runtime/fnv.h"

namespace dafs::server {

uint64_t BootSum() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  return Fnv64(text);
}

}  // namespace dafs::server
