#include "wire/rpcrdma/read_chunks.h"

#include "absl/strings/str_cat.h"

namespace dafs::rpcrdma {

std::vector<ReadChunk> GroupReads(const std::vector<ReadSegment>& reads) {
  std::vector<ReadChunk> chunks;
  for (const ReadSegment& read : reads) {
    if (chunks.empty() || chunks.back().position != read.position) {
      chunks.push_back({.position = read.position});
    }
    chunks.back().segments.push_back(read.target);
    chunks.back().length += read.target.length;
  }
  return chunks;
}

absl::StatusOr<ReadPlan> PlanReads(const std::vector<ReadChunk>& chunks, size_t inline_bytes,
                                   size_t most) {
  ReadPlan plan;
  size_t taken = 0;
  const auto take_inline = [&](size_t size) {
    if (size > 0) {
      plan.pieces.push_back({.at = plan.size, .size = size, .is_inline = true, .inline_at = taken});
    }
    taken += size;
    plan.size += size;
  };
  for (const ReadChunk& chunk : chunks) {
    const bool outside =
        chunk.position < plan.size || chunk.position - plan.size > inline_bytes - taken;
    if (chunk.position % 4 != 0 || outside) {
      return absl::DataLossError(
          absl::StrCat("a read chunk at position ", chunk.position, " of the message"));
    }
    take_inline(chunk.position - plan.size);
    if (chunk.length > most) {
      return absl::DataLossError(absl::StrCat("a read chunk of ", chunk.length, " bytes"));
    }
    for (const Segment& segment : chunk.segments) {
      if (segment.length == 0) continue;
      plan.pieces.push_back({.at = plan.size, .size = segment.length, .from = segment});
      plan.size += segment.length;
    }
    plan.size = XdrPadded(plan.size);
    if (plan.size > most) break;
  }
  take_inline(inline_bytes - taken);
  if (plan.size > most) {
    return absl::DataLossError(absl::StrCat("a message of ", plan.size, " bytes"));
  }
  return plan;
}

}  // namespace dafs::rpcrdma
