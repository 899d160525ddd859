// The number of an object that stat(2) shows.
// Spec: 4.1.4 and 6.5.21 (a change of FSHandle is another file system), 6.1.5 FILE_ID.
//
// FILE_ID is unique within one FSHandle only, and the kernel has one device for the whole mount.
// Two objects with one number are one object to programs: cp(1) refuses to copy one over the other,
// tar(1) takes one for a link of the other, and find(1) believes that a directory lies in itself.
// So what is not in the file system of the mount's root has other numbers there than at the server:
// the same ones at any time and on any client. Pure; any thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "wire/protocol/types.h"

namespace dafs::fuse {

// Spreads the bits of an FSHandle, which may differ from another in one of them.
inline uint64_t NumberOfFileSystem(const wire::FsHandle& fs) {
  uint64_t halves[2];
  static_assert(sizeof(halves) == sizeof(fs.bytes));
  std::memcpy(halves, fs.bytes.data(), sizeof(halves));
  const auto spread = [](uint64_t n) {
    n = (n ^ (n >> 32)) * 0xd6e8feb86659fd93;  // odd, so nothing is lost
    n = (n ^ (n >> 32)) * 0xd6e8feb86659fd93;
    return n ^ (n >> 32);
  };
  return spread(spread(halves[0]) + halves[1] + 1);
}

// Of an object with `file_id` in `fs`; `root` is the file system of the mount's root.
inline uint64_t InodeNumber(const wire::FsHandle& fs, const wire::FsHandle& root,
                            uint64_t file_id) {
  return fs == root ? file_id : file_id ^ NumberOfFileSystem(fs);
}

}  // namespace dafs::fuse
