// `-o remount`: changes the mount(2) flags of a mount, such as ro and nosuid. Every other option is
// a property of the running mount.dafs and cannot change. mount(8) repeats the options of the fstab
// line and of /proc/mounts. If one of them would change, the remount fails, names that option and
// changes nothing. Main thread; blocks on the running mount.dafs for at most 5 s.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "fuse/mount/process/exit_code.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

Outcome Remount(const Options& wanted);

// Returns the first option of `list` that differs from `running`. Returns nullopt if none does, or
// if the options of `list` together result in `running`: the last of opposite options decides.
// `kernel_options` are the mount's options in /proc/mounts, "rw,user_id=0,...", which mount(8)
// repeats too.
std::optional<std::string> FirstChange(std::span<const std::string> list, const Options& running,
                                       const std::string& kernel_options);

}  // namespace dafs::fuse
