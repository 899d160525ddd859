// Converts attributes between the protocol and the kernel. Spec: 6.1.5, WIRE 5.2, R90 (owners
// are decimal ids; the client has replaced names). Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "fuse/kernel/protocol.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

// The attributes that stat(2) shows. `nodeid` replaces a missing FILE_ID.
fuse_attr KernelAttributes(const wire::FileAttributes& attributes, uint64_t nodeid);
// The attributes that statx(2) shows: the same, and the time of birth if it is known.
StatxAttributes KernelStatx(const wire::FileAttributes& attributes, uint64_t nodeid);

// The S_IFMT bits of a type; 0 for one that a file system cannot have.
uint32_t FileTypeBits(wire::ObjectType type);
wire::ObjectType TypeFromMode(uint32_t mode);

// Converts between the kernel's 32-bit device numbers (new_encode_dev) and DAFS's pair.
wire::SpecData DeviceFromKernel(uint32_t rdev);
uint32_t DeviceToKernel(const wire::SpecData& device);

// The attributes that a SETATTR of the kernel sets, except those that the kernel handles itself.
wire::FileAttributes AttributesToSet(const fuse_setattr_in& in);

// The attributes of a new file or directory with this mode, whose file type bits are ignored.
wire::FileAttributes NewFileAttributes(uint32_t mode);

// Converts access(2) bits to ACCESS bits, for a file or directory.
uint32_t AccessFromMask(uint32_t mask, bool directory);

// The stability that data must have before a WRITE with these flags of open(2) is answered.
wire::StableHow StabilityFromFlags(uint32_t flags);

struct KernelTime {
  uint64_t seconds;
  uint32_t nanoseconds;
};
// The time for which the kernel may keep something. A negative `duration` becomes zero.
KernelTime Validity(absl::Duration duration);

}  // namespace dafs::fuse
