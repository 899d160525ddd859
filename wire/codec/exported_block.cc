#include "wire/codec/exported_block.h"

#include <isa-l/crc.h>

#include <atomic>
#include <bit>
#include <cstring>

namespace dafs::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of a frame are not swapped");

constexpr size_t kFrameChecksumAt = kExportedEdge + kExportedBlock;
constexpr size_t kFrameVersionAt = kFrameChecksumAt + 8;

// A frame begins at a multiple of 8.
std::atomic_ref<uint64_t> FrameWord(ExportedFrame frame, size_t at) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(frame.data() + at));
}

uint64_t LoadWord(std::span<const std::byte, kExportedFrame> frame, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, frame.data() + at, sizeof(value));
  return value;
}

// ISA-L declares the buffer as writable, but only reads it.
unsigned char* ForIsal(const std::byte* data) {
  return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data));
}

uint64_t FrameChecksum(std::span<const std::byte, kExportedFrame> frame, uint64_t version) {
  const unsigned int seed =
      crc32_iscsi(reinterpret_cast<unsigned char*>(&version), sizeof(version), ~0u);
  return crc32_iscsi(ForIsal(frame.data() + kExportedEdge), kExportedBlock, seed);
}

}  // namespace

void InvalidateExported(ExportedFrame frame) {
  const uint64_t odd = FrameWord(frame, 0).load(std::memory_order_relaxed) | 1;
  FrameWord(frame, kFrameVersionAt).store(odd, std::memory_order_relaxed);
  FrameWord(frame, 0).store(odd, std::memory_order_relaxed);
  // Before all that the caller does next: change the data, or answer that it has changed.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void PublishExported(ExportedFrame frame, uint64_t version) {
  FrameWord(frame, kFrameChecksumAt)
      .store(FrameChecksum(frame, version), std::memory_order_relaxed);
  // The first version comes last: a copy in the order of addresses that has it has all else.
  FrameWord(frame, kFrameVersionAt).store(version, std::memory_order_release);
  FrameWord(frame, 0).store(version, std::memory_order_release);
}

bool IsExported(std::span<const std::byte, kExportedFrame> copy, uint64_t version) {
  return LoadWord(copy, 0) == version && LoadWord(copy, kFrameVersionAt) == version &&
         LoadWord(copy, kFrameChecksumAt) == FrameChecksum(copy, version);
}

}  // namespace dafs::wire
