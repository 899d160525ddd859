// The inode number that stat(2) shows for an object.
// Spec: 4.1.4 and 6.5.21 (a change of FSHandle is another file system), 6.1.5 FILE_ID.
//
// FILE_ID is unique within one FSHandle only, but the kernel has one device for the whole mount.
// Programs treat two objects with one number as the same object: cp(1) refuses to copy one over the
// other, tar(1) stores one as a link to the other, and find(1) assumes that a directory contains
// itself. So objects outside the file system of the mount's root have other numbers than at the
// server. These numbers are the same at any time and on any client. Pure; any thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "wire/protocol/types.h"

namespace dafs::fuse {

// Mixes the bits of an FSHandle, because two handles may differ in a single bit.
inline uint64_t NumberOfFileSystem(const wire::FsHandle& fs) {
  uint64_t halves[2];
  static_assert(sizeof(halves) == sizeof(fs.bytes));
  std::memcpy(halves, fs.bytes.data(), sizeof(halves));
  const auto spread = [](uint64_t n) {
    n = (n ^ (n >> 32)) * 0xd6e8feb86659fd93;  // odd, so that the product is unique
    n = (n ^ (n >> 32)) * 0xd6e8feb86659fd93;
    return n ^ (n >> 32);
  };
  return spread(spread(halves[0]) + halves[1] + 1);
}

// The number of the object with `file_id` in `fs`. `root` is the file system of the mount's root.
inline uint64_t InodeNumber(const wire::FsHandle& fs, const wire::FsHandle& root,
                            uint64_t file_id) {
  return fs == root ? file_id : file_id ^ NumberOfFileSystem(fs);
}

}  // namespace dafs::fuse
