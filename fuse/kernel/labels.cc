#include "fuse/kernel/labels.h"

#include <fstream>

#include "absl/strings/match.h"

namespace dafs::fuse {

bool KernelHasSelinux(const std::string& filesystems) {
  std::ifstream lines(filesystems);
  for (std::string line; std::getline(lines, line);) {
    if (absl::EndsWith(line, "\tselinuxfs")) return true;
  }
  return false;
}

}  // namespace dafs::fuse
