// The options of mount(8) that every file system has: flags of mount(2), and options that only
// other programs read. Pure lookups; any thread.
#pragma once

#include <string_view>

namespace dafs::fuse {

struct FlagOption {
  std::string_view name;
  unsigned long sets;
  unsigned long clears;
};

// Returns nullptr if `option` is not a flag of mount(2).
const FlagOption* FindFlagOption(std::string_view option);

// Options of mount(8), systemd and fstab that mount.dafs ignores: _netdev, nofail, x-..., ...
bool IsForOthers(std::string_view option);

// context=, fscontext=, defcontext=, rootcontext=: for the kernel's security module.
bool IsSecurityContext(std::string_view option);

}  // namespace dafs::fuse
