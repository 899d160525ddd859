#include "wire/dat/iwarp/fpdu_batch.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/crc32c.h"
#include "wire/dat/iwarp/bytes.h"

namespace dafs::dat::iwarp {

FpduBatch::FpduBatch()
    : control_(new std::byte[kControlBytes]), pieces_(kMaxPieces), marks_(kMaxFpdus) {}

void FpduBatch::Clear() {
  control_used_ = pieces_used_ = pieces_sent_ = fpdus_ = 0;
  made_bytes_ = sent_bytes_ = 0;
  marks_used_ = marks_done_ = 0;
}

// Takes the next `size` bytes of control_. Extends the last piece if the bytes follow it directly.
std::byte* FpduBatch::AddControl(size_t size) {
  std::byte* bytes = &control_[control_used_];
  control_used_ += size;
  if (pieces_used_ > 0) {
    iovec& before = pieces_[pieces_used_ - 1];
    if (static_cast<std::byte*>(before.iov_base) + before.iov_len == bytes) {
      before.iov_len += size;
      return bytes;
    }
  }
  pieces_[pieces_used_++] = {.iov_base = bytes, .iov_len = size};
  return bytes;
}

std::byte* FpduBatch::BeginFpdu(size_t header_bytes) {
  const size_t size = kFpduHeaderBytes + header_bytes;
  std::byte* fpdu = AddControl(size);
  fpdu_piece_ = pieces_used_ - 1;
  fpdu_at_ = pieces_[fpdu_piece_].iov_len - size;
  return fpdu;
}

void FpduBatch::AddPayload(const std::byte* from, size_t size) {
  if (size <= kCopiedBytes && control_used_ + size + kFpduRoomBytes <= kControlBytes) {
    std::memcpy(AddControl(size), from, size);
  } else {
    pieces_[pieces_used_++] = {.iov_base = const_cast<std::byte*>(from), .iov_len = size};
  }
}

void FpduBatch::EndFpdu(std::byte* fpdu, size_t header_bytes, size_t payload_bytes) {
  const size_t ulpdu_bytes = header_bytes + payload_bytes;
  PutBig(fpdu, static_cast<uint16_t>(ulpdu_bytes));
  const size_t pad = PadBytes(ulpdu_bytes);
  std::byte* trailer = AddControl(pad + kCrcBytes);
  std::memset(trailer, 0, pad + kCrcBytes);
  if (crc_) {
    uint32_t crc = 0;
    size_t left = kFpduHeaderBytes + ulpdu_bytes + pad;
    size_t at = fpdu_at_;
    for (size_t piece = fpdu_piece_; left > 0; ++piece, at = 0) {
      const size_t size = std::min(left, pieces_[piece].iov_len - at);
      crc = ExtendCrc32c(crc, {static_cast<const std::byte*>(pieces_[piece].iov_base) + at, size});
      left -= size;
    }
    PutCrc(trailer + pad, crc);
  }
  ++fpdus_;
  made_bytes_ += FpduBytes(ulpdu_bytes);
}

bool FpduBatch::Send(const ByteStream& stream) {
  const ssize_t sent = stream.Send({&pieces_[pieces_sent_], pieces_used_ - pieces_sent_});
  if (sent < 0) return false;
  sent_bytes_ += static_cast<uint64_t>(sent);
  size_t left = static_cast<size_t>(sent);
  while (pieces_sent_ < pieces_used_ && left >= pieces_[pieces_sent_].iov_len) {
    left -= pieces_[pieces_sent_++].iov_len;
  }
  if (left > 0) {
    iovec& piece = pieces_[pieces_sent_];
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + left;
    piece.iov_len -= left;
  }
  return true;
}

bool FpduBatch::RefersTo(std::span<const std::byte> memory) const {
  const std::less<const std::byte*> before;
  const std::byte* end = memory.data() + memory.size();
  for (size_t i = pieces_sent_; i < pieces_used_; ++i) {
    const auto* at = static_cast<const std::byte*>(pieces_[i].iov_base);
    if (before(at, end) && before(memory.data(), at + pieces_[i].iov_len)) return true;
  }
  return false;
}

}  // namespace dafs::dat::iwarp
