// A block of the server's exported cache, as it lies in the memory of the server and as an RDMA
// read copies it: 4 KiB of a file between two copies of its version, with a checksum. The copy
// shows by itself whether it is the data that a reference promised: the server sends no notice when
// a reference becomes invalid. Private; docs/wire.md, "Reads by reference".
//
// The server makes the version odd before it changes a block, and gives the block a new version
// afterwards. No version is used twice. An RDMA read copies a block while the server may change it,
// and in any order: an adapter orders a read at most within a cache line, and memcpy(3) may begin
// at the end. So the versions alone do not show every torn copy; the checksum does.
//
// The functions of the server are for one thread at a time for each block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dafs::wire {

inline constexpr uint32_t kExportedBlock = 4096;  // of the data
// A frame: u64 version, u64 0, the data, u64 CRC32C of version and data, u64 version. Numbers are
// little-endian.
inline constexpr uint32_t kExportedEdge = 16;
inline constexpr uint32_t kExportedFrame = kExportedBlock + 2 * kExportedEdge;
// Frames lie this far apart, from kExportedFirst on, so that the data begins a cache line.
inline constexpr uint32_t kExportedStride = kExportedBlock + 128;
inline constexpr uint32_t kExportedFirst = 64 - kExportedEdge;

using ExportedFrame = std::span<std::byte, kExportedFrame>;

inline std::span<std::byte, kExportedBlock> ExportedData(ExportedFrame frame) {
  return frame.subspan<kExportedEdge, kExportedBlock>();
}

// Makes all references to the block invalid. A read that begins after this returns does not verify.
void InvalidateExported(ExportedFrame frame);
// The data of the invalid block has been replaced: gives it `version`, which is even.
void PublishExported(ExportedFrame frame, uint64_t version);

// Whether `copy` is the whole and unmixed block of this version.
bool IsExported(std::span<const std::byte, kExportedFrame> copy, uint64_t version);

}  // namespace dafs::wire
