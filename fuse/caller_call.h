// What system call the caller of a request is in: some that mean different things come from the
// kernel in the same words. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dafs::fuse {

// Whether thread `pid` is in fcntl(F_OFD_SETLKW). False if that cannot be told. Record locks and
// locks of open file descriptions (OFD) look alike (FUSE-FACTS 8), but only a wait for a record
// lock fails with EDEADLK: an OFD lock may be given up by somebody other than who waits.
bool WaitsForOfdLock(uint32_t pid, const std::string& proc = "/proc");

// Whether thread `pid` is in chown(2) or one of its kin; nothing if that cannot be told. One that
// changes neither owner nor group looks like the word that a write takes set-id bits away.
std::optional<bool> ChangesOwner(uint32_t pid, const std::string& proc = "/proc");

}  // namespace dafs::fuse
