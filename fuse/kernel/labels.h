// Whether the kernel of this machine uses labels of SELinux.
#pragma once

#include <string>

namespace dafs::fuse {

// Returns true if SELinux runs. Like libselinux, checks whether the kernel lists the SELinux file
// system. The kernel itself may then request a file's label, and treats "not supported" as a
// defect. `filesystems`: a file like /proc/filesystems. Returns false if it cannot be read.
bool KernelHasSelinux(const std::string& filesystems = "/proc/filesystems");

}  // namespace dafs::fuse
