// The ioctl(2) of files on a mount with which dafs-lock(1) takes locks that flock(2) cannot
// request. Its size is fixed, so that FUSE passes it on. Constants and a plain struct; any thread.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace dafs {

// Locks the whole file for the open file description, without waiting. EAGAIN: another owner holds
// it. EOWNERDEAD: the lock is broken. EINVAL with kLockIoctlRepair: nothing is broken. ENOLCK: the
// server does not offer such a lock. ENOTTY: not on a mount of mount.dafs. The lock ends with the
// open file description, or with F_UNLCK.
struct LockIoctl {
  uint32_t type = 0;  // F_RDLCK, F_WRLCK or F_UNLCK
  uint32_t flags = 0;
};
inline constexpr uint32_t kLockIoctlPersist = 1;
inline constexpr uint32_t kLockIoctlRepair = 2;       // takes a broken lock over
inline constexpr uint32_t kLockIoctlRecords = 4;      // all bytes, as fcntl(2); else as flock(2)
inline constexpr uint32_t kLockIoctlAutoRecover = 8;  // changes are undone if the client fails
// Locks nothing: undoes what was changed under the lock. `type` is ignored. Written data must have
// reached the mount (fsync(2)).
inline constexpr uint32_t kLockIoctlAbort = 16;
inline constexpr uint32_t kLockIoctlFlags = 31;

inline constexpr unsigned long kLockIoctl = _IOW(0xda, 1, LockIoctl);

}  // namespace dafs
