// The FPDUs that are made and not completely sent, as pieces of memory for one sendmsg. Headers,
// trailers and small payloads are consecutive in one buffer, so that they form one piece; other
// payloads are sent from registered memory. A mark reports when a message has left.
// Spec: RFC 5044, 4. Belongs to its Transmit; not thread-safe; never blocks. Allocates only when
// it is constructed.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "wire/dat/iwarp/byte_stream.h"
#include "wire/dat/iwarp/ddp.h"
#include "wire/dat/iwarp/mpa.h"

namespace dafs::dat::iwarp {

class FpduBatch {
 public:
  FpduBatch();

  // Whether FPDUs have a CRC. Call before the first FPDU.
  void UseCrc(bool crc) { crc_ = crc; }
  // Forgets all FPDUs and marks, sent or not.
  void Clear();

  // Whether nothing is left to send.
  bool empty() const { return pieces_sent_ == pieces_used_; }
  // Whether another FPDU fits, of one header, one payload and one trailer.
  bool HasRoom() const {
    return fpdus_ < kMaxFpdus && control_used_ + kFpduRoomBytes <= kControlBytes &&
           pieces_used_ + 3 <= kMaxPieces && made_bytes_ < (crc_ ? kBytesWithCrc : kBytes);
  }
  // Whether the current FPDU may get another payload; one piece stays free for the trailer.
  bool HasRoomForPayload() const { return pieces_used_ + 1 < kMaxPieces; }

  // One FPDU: BeginFpdu if HasRoom(), any number of payloads, EndFpdu.
  // BeginFpdu returns room for the FPDU's header and `header_bytes` of the ULPDU. The caller writes
  // the latter before EndFpdu.
  std::byte* BeginFpdu(size_t header_bytes);
  // `from` must stay unchanged until it is sent, unless it is short (then it is copied).
  void AddPayload(const std::byte* from, size_t size);
  // Fills in the length, and adds pad and CRC. `fpdu` is BeginFpdu's.
  void EndFpdu(std::byte* fpdu, size_t header_bytes, size_t payload_bytes);

  // Marks the end of the last FPDU: NextSent returns `work` when everything before it is sent. One
  // mark for each FPDU at most.
  void Mark(uint32_t work) { marks_[marks_used_++] = {.end = made_bytes_, .work = work}; }
  // The next mark that was reached; nullopt if there is none.
  std::optional<uint32_t> NextSent() {
    if (marks_done_ == marks_used_ || marks_[marks_done_].end > sent_bytes_) return std::nullopt;
    return marks_[marks_done_++].work;
  }

  // Sends as much as `stream` takes. Not if empty(). Returns false with errno if that fails, as
  // ByteStream::Send.
  bool Send(const ByteStream& stream);

  // Whether a piece not yet sent lies in `memory`.
  bool RefersTo(std::span<const std::byte> memory) const;

 private:
  struct MarkedWork {
    uint64_t end = 0;  // in the bytes of the batch
    uint32_t work = 0;
  };

  static constexpr size_t kMaxPieces = 256;
  static constexpr size_t kMaxFpdus = 64;
  // Enough data for an efficient sendmsg. Less with CRC, so that the kernel copies data that is
  // still in the CPU cache.
  static constexpr uint64_t kBytes = 1 << 20;
  static constexpr uint64_t kBytesWithCrc = 128 << 10;
  // Copying up to this many bytes costs less than one more piece in sendmsg.
  static constexpr size_t kCopiedBytes = 512;
  // Header, the longest control payload (a Terminate), pad and CRC.
  static constexpr size_t kFpduRoomBytes =
      kFpduHeaderBytes + kMaxHeaderBytes + kMaxTerminateBytes + 8;
  static constexpr size_t kControlBytes = kMaxFpdus * (kFpduRoomBytes + kCopiedBytes);

  std::byte* AddControl(size_t size);

  bool crc_ = false;
  std::unique_ptr<std::byte[]> control_;
  size_t control_used_ = 0;
  size_t fpdu_piece_ = 0;  // the piece in which the current FPDU begins
  size_t fpdu_at_ = 0;     // its offset in that piece
  std::vector<iovec> pieces_;
  size_t pieces_used_ = 0;
  size_t pieces_sent_ = 0;
  size_t fpdus_ = 0;
  uint64_t made_bytes_ = 0;
  uint64_t sent_bytes_ = 0;
  std::vector<MarkedWork> marks_;
  size_t marks_used_ = 0;
  size_t marks_done_ = 0;
};

}  // namespace dafs::dat::iwarp
