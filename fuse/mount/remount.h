// `-o remount`: changes the flags of mount(2) that a mount has, such as ro and nosuid. Every other
// option is a property of the mount.dafs that runs, and stays. mount(8) repeats those of the fstab
// line and of /proc/mounts; one that would change is refused by its name, and nothing is changed.
// The main thread; blocks on the mount.dafs that runs for at most 5 s.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "fuse/mount/exit_code.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

Outcome Remount(const Options& wanted);

// The first of `list` that is not as in `running`; nullopt: there is none. `kernel_options`: what
// /proc/mounts shows of the mount, "rw,user_id=0,...", which mount(8) repeats too.
std::optional<std::string> FirstChange(std::span<const std::string> list, const Options& running,
                                       const std::string& kernel_options);

}  // namespace dafs::fuse
