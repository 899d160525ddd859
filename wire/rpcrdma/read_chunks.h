// Plans how a call with read chunks becomes one RPC message. Spec: RFC 8166, 3.4.5, 3.4.6 and 4.2;
// the positions are those of the whole message. Values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/rpcrdma/header.h"

namespace dafs::rpcrdma {

// Successive segments of the read list with one position.
struct ReadChunk {
  uint32_t position = 0;
  uint64_t length = 0;  // bytes of all segments
  std::vector<Segment> segments = {};
};

std::vector<ReadChunk> GroupReads(const std::vector<ReadSegment>& reads);

// A run of bytes of the whole message: from the inline part, or from a segment of the peer.
struct Piece {
  size_t at = 0;  // in the whole message
  size_t size = 0;
  bool is_inline = false;
  size_t inline_at = 0;  // is_inline: its offset in the inline part
  Segment from = {};     // otherwise
};

struct ReadPlan {
  std::vector<Piece> pieces;  // with a position-zero chunk, `is_inline` refers to that chunk
  size_t size = 0;            // of the whole message; bytes between pieces are padding
};

// A plan for a message of which `inline_bytes` are inline, or arrive by a position-zero chunk that
// is not among `chunks`. kDataLoss: positions that do not ascend, are not multiples of 4 or are
// outside of the message; or a whole message of more than `most` bytes.
absl::StatusOr<ReadPlan> PlanReads(const std::vector<ReadChunk>& chunks, size_t inline_bytes,
                                   size_t most);

}  // namespace dafs::rpcrdma
