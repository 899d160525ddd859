// FPDUs of the sending half laid out as pieces of memory, and their way into the socket.
// Spec: RFC 5044, 4.
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "wire/dat/iwarp_bytes.h"
#include "wire/dat/iwarp_crc32c.h"
#include "wire/dat/iwarp_transmit.h"

namespace dafs::dat::iwarp {

// Reserves the FPDU's header with `header_bytes` of ULPDU; joined with the trailer before it.
std::byte* Transmit::BeginFpdu(size_t header_bytes) {
  std::byte* fpdu = &control_[control_used_];
  const size_t size = kFpduHeaderBytes + header_bytes;
  control_used_ += size;
  if (pieces_used_ > 0) {
    iovec& before = pieces_[pieces_used_ - 1];
    if (static_cast<std::byte*>(before.iov_base) + before.iov_len == fpdu) {
      before.iov_len += size;
      return fpdu;
    }
  }
  pieces_[pieces_used_++] = {.iov_base = fpdu, .iov_len = size};
  return fpdu;
}

void Transmit::AddPayload(const std::byte* from, size_t size) {
  pieces_[pieces_used_++] = {.iov_base = const_cast<std::byte*>(from), .iov_len = size};
}

// Fills in the length, and adds pad and CRC behind the payload pieces.
void Transmit::EndFpdu(std::byte* fpdu, size_t header_bytes, size_t payload_bytes) {
  const size_t ulpdu_bytes = header_bytes + payload_bytes;
  PutBig(fpdu, static_cast<uint16_t>(ulpdu_bytes));
  const size_t pad = PadBytes(ulpdu_bytes);
  std::byte* trailer = &control_[control_used_];
  control_used_ += pad + kCrcBytes;
  std::memset(trailer, 0, pad + kCrcBytes);
  if (stream_.crc) {
    uint32_t crc = ExtendCrc32c(0, {fpdu, kFpduHeaderBytes + header_bytes});
    size_t first = pieces_used_;  // the payload's pieces are the last ones
    for (size_t left = payload_bytes; left > 0;) left -= pieces_[--first].iov_len;
    for (; payload_bytes > 0 && first < pieces_used_; ++first) {
      crc = ExtendCrc32c(
          crc, {static_cast<const std::byte*>(pieces_[first].iov_base), pieces_[first].iov_len});
    }
    PutCrc(trailer + pad, ExtendCrc32c(crc, {trailer, pad}));
  }
  iovec& before = pieces_[pieces_used_ - 1];
  if (static_cast<std::byte*>(before.iov_base) + before.iov_len == trailer) {
    before.iov_len += pad + kCrcBytes;
  } else {
    pieces_[pieces_used_++] = {.iov_base = trailer, .iov_len = pad + kCrcBytes};
  }
  ++fpdus_;
  batch_bytes_ += FpduBytes(ulpdu_bytes);
}

// Sends what it can of the batch. False when the socket took less than all, or failed (`*error`).
bool Transmit::SendBatch(absl::Status* error) {
  msghdr message = {};
  message.msg_iov = &pieces_[pieces_sent_];
  message.msg_iovlen = pieces_used_ - pieces_sent_;
  ssize_t sent = 0;
  do {
    sent = sendmsg(stream_.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      blocked_ = true;
    } else {
      *error = absl::ErrnoToStatus(errno, "send");
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
  blocked_ = pieces_sent_ < pieces_used_;
  return !blocked_;
}

}  // namespace dafs::dat::iwarp
