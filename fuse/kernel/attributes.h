// Attributes between the protocol and the kernel. Spec: 6.1.5, WIRE.md 5.2, R90 (owners are decimal
// ids). Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "client/state/identity.h"
#include "fuse/kernel/protocol.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

// What stat(2) shows. `nodeid` stands in for a missing FILE_ID.
fuse_attr KernelAttributes(const wire::FileAttributes& attributes, uint64_t nodeid);
// The same and the time of birth, if it is known: what statx(2) shows.
StatxAttributes KernelStatx(const wire::FileAttributes& attributes, uint64_t nodeid);

// The S_IFMT bits of a type; 0 for one that a file system cannot have.
uint32_t FileTypeBits(wire::ObjectType type);
wire::ObjectType TypeFromMode(uint32_t mode);

// The kernel's 32-bit device numbers (new_encode_dev) and DAFS's pair.
wire::SpecData DeviceFromKernel(uint32_t rdev);
uint32_t DeviceToKernel(const wire::SpecData& device);

// What a SETATTR of the kernel asks to be set. Nothing in it that the kernel does by itself.
wire::FileAttributes AttributesToSet(const fuse_setattr_in& in);

// The attributes of a new file or directory with this mode (and file type bits, which are dropped).
wire::FileAttributes NewFileAttributes(uint32_t mode);

// access(2) bits to ACCESS bits, for a file or directory.
uint32_t AccessFromMask(uint32_t mask, bool directory);

// Whether the kernel, which goes by the mode, gives `who` all of `rights` (bits of S_IRWXO) to a
// directory, and with them the right to remove others' names from it.
bool ModeGrants(const wire::FileAttributes& directory, const client::Identity& who,
                uint32_t rights);

// How stable data must be before a WRITE with these flags of open(2) is answered.
wire::StableHow StabilityFromFlags(uint32_t flags);

struct KernelTime {
  uint64_t seconds;
  uint32_t nanoseconds;
};
// A time the kernel may keep something; negative ones are zero.
KernelTime Validity(absl::Duration duration);

}  // namespace dafs::fuse
