#include "server/store/system/machine_boot.h"

#include <fstream>
#include <string>

namespace dafs::server {

// FNV-1a. absl::Hash differs in every process.
uint64_t BootSum() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  uint64_t sum = 14695981039346656037u;
  for (char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return sum;
}

}  // namespace dafs::server
