// The options of mount(8) that every file system has: those that are flags of mount(2), and those
// that are for others to read. Pure lookups; any thread.
#pragma once

#include <string_view>

namespace dafs::fuse {

struct FlagOption {
  std::string_view name;
  unsigned long sets;
  unsigned long clears;
};

// nullptr: `option` is not a flag of mount(2).
const FlagOption* FindFlagOption(std::string_view option);

// Options of mount(8), systemd and fstab that mean nothing to us: _netdev, nofail, x-..., ...
bool IsForOthers(std::string_view option);

// context=, fscontext=, defcontext=, rootcontext=: for the kernel's security module.
bool IsSecurityContext(std::string_view option);

}  // namespace dafs::fuse
