// The ioctl(2) by which a program asks a mount where the server has an open file, to read it past
// the mount (client/preload). Its size is fixed, so that FUSE passes it on. Constants and a plain
// struct; any thread.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace dafs {

// The answer. Only a file that was opened with O_DIRECT has one. EOPNOTSUPP: the mount is protected
// or authenticated in a way that another client of this machine cannot repeat, or does not use TCP.
// EINVAL: opened without O_DIRECT. ENOTTY: not on a mount of mount.dafs, or a directory.
//
// Data of this mount that the server has lost is written again before the answer. From the open
// until its end no write to the file is answered before the server has the data.
struct DirectIoctl {
  uint32_t version = 0;  // kDirectIoctlVersion
  uint32_t flags = 0;    // kDirectIoctl...
  char server[64] = {};  // "192.0.2.1:20149" or "[2001:db8::1]:20149", ends with a NUL
  char export_path[512] = {};
  uint8_t filehandle[64] = {};  // wire::FileHandle
};
static_assert(sizeof(DirectIoctl) == 648);

inline constexpr uint32_t kDirectIoctlVersion = 1;
inline constexpr uint32_t kDirectIoctlChecksum = 1;  // the mount has checksum
inline constexpr uint32_t kDirectIoctlCrc = 2;       // the mount has crc
inline constexpr uint32_t kDirectIoctlNoAtime = 4;   // the mount has noatime

inline constexpr unsigned long kDirectIoctl = _IOR(0xda, 2, DirectIoctl);

}  // namespace dafs
