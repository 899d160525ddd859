#include "fuse/files/write_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dafs::fuse {
namespace {

size_t MostOut(const client::BufferPool& pool) {
  const size_t buffer = pool.large_bytes() + client::BufferLease::header_room();
  const size_t for_writes = pool.counts().bytes / 2 / buffer;
  return std::min(for_writes / 2, WriteStreams::kMostOut);
}

}  // namespace

WriteStreams::WriteStreams(const client::BufferPool& pool) : most_out_(MostOut(pool)) {}

const WritePiece* WriteStreams::Join(const OpenState& open, uint64_t offset,
                                     std::span<const std::byte> data,
                                     WriteBehindTable& write_behind) {
  auto it = streams_.find(&open);
  if (it == streams_.end() || !it->second.gathered.has_value()) return nullptr;
  WritePiece& piece = *it->second.gathered;
  if (piece.offset + piece.size != offset || data.size() > kGatheredMost ||
      piece.size + data.size() > piece.lease.payload_bytes()) {
    return nullptr;
  }
  if (!write_behind.Lengthen(open.nodeid, piece.offset, data.size())) return nullptr;
  std::memcpy(piece.lease.payload() + piece.size, data.data(), data.size());
  piece.size += static_cast<uint32_t>(data.size());
  return &piece;
}

bool WriteStreams::Keep(WritePiece& piece) {
  auto it = streams_.find(piece.open.get());
  if (it == streams_.end() || it->second.gathered.has_value()) return false;
  if (piece.size > kGatheredMost || gathered_ >= most_out_) return false;
  it->second.gathered = std::move(piece);
  ++gathered_;
  return true;
}

void WriteStreams::Exchange(WritePiece& piece) {
  auto it = streams_.find(piece.open.get());
  if (it == streams_.end() || !it->second.gathered.has_value()) return;
  if (piece.size <= kGatheredMost) std::swap(piece, *it->second.gathered);
}

void WriteStreams::Begin(const OpenState& open) {
  ++streams_[&open].out;
  ++out_;
}

std::optional<WritePiece> WriteStreams::Next(const OpenState& open) {
  auto it = streams_.find(&open);
  if (it->second.gathered.has_value()) {
    --gathered_;
    return std::exchange(it->second.gathered, std::nullopt);
  }
  --out_;
  if (--it->second.out == 0) streams_.erase(it);
  return std::nullopt;
}

}  // namespace dafs::fuse
