// Whether the kernel of this machine has to do with the labels of SELinux.
#pragma once

#include <string>

namespace dafs::fuse {

// True if SELinux runs, by what libselinux goes by: the kernel lists its file system. Then the
// kernel itself may ask a file for its label, and takes "not supported" for a defect.
// `filesystems`: as /proc/filesystems; false where it cannot be read.
bool KernelHasSelinux(const std::string& filesystems = "/proc/filesystems");

}  // namespace dafs::fuse
