// Lays out FPDUs as pieces of memory and sends them.
// Spec: RFC 5044, 4.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/crc32c.h"
#include "wire/dat/iwarp/bytes.h"
#include "wire/dat/iwarp/transmit.h"

namespace dafs::dat::iwarp {
// Takes the next `size` bytes of control_. Extends the last piece if the bytes follow it directly.
std::byte* Transmit::AddControl(size_t size) {
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

// Reserves the FPDU's header and `header_bytes` of the ULPDU.
std::byte* Transmit::BeginFpdu(size_t header_bytes) {
  const size_t size = kFpduHeaderBytes + header_bytes;
  std::byte* fpdu = AddControl(size);
  fpdu_piece_ = pieces_used_ - 1;
  fpdu_at_ = pieces_[fpdu_piece_].iov_len - size;
  return fpdu;
}

void Transmit::AddPayload(const std::byte* from, size_t size) {
  if (size <= kCopiedBytes && control_used_ + size + kFpduRoomBytes <= kControlBytes) {
    std::memcpy(AddControl(size), from, size);
  } else {
    pieces_[pieces_used_++] = {.iov_base = const_cast<std::byte*>(from), .iov_len = size};
  }
}

// Fills in the length, and adds pad and CRC after the payload.
void Transmit::EndFpdu(std::byte* fpdu, size_t header_bytes, size_t payload_bytes) {
  const size_t ulpdu_bytes = header_bytes + payload_bytes;
  PutBig(fpdu, static_cast<uint16_t>(ulpdu_bytes));
  const size_t pad = PadBytes(ulpdu_bytes);
  std::byte* trailer = AddControl(pad + kCrcBytes);
  std::memset(trailer, 0, pad + kCrcBytes);
  if (options_.crc) {
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
  batch_bytes_ += FpduBytes(ulpdu_bytes);
}

// Sends as much of the batch as possible. Returns false if the socket accepted only a part, or
// failed (`*error`).
bool Transmit::SendBatch(absl::Status* error) {
  const ssize_t sent = options_.stream.Send({&pieces_[pieces_sent_], pieces_used_ - pieces_sent_});
  if (sent < 0) {
    if (IsWaiting(errno)) {
      blocked_ = true;
    } else {
      *error = options_.stream.Error("send");
    }
    return false;
  }
  batch_sent_ += static_cast<uint64_t>(sent);
  size_t left = static_cast<size_t>(sent);
  while (pieces_sent_ < pieces_used_ && left >= pieces_[pieces_sent_].iov_len) {
    left -= pieces_[pieces_sent_++].iov_len;
  }
  if (left > 0) {
    iovec& piece = pieces_[pieces_sent_];
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + left;
    piece.iov_len -= left;
  }
  CompleteMarks();
  blocked_ = pieces_sent_ < pieces_used_ || options_.stream.has_output();
  return !blocked_;
}

}  // namespace dafs::dat::iwarp
