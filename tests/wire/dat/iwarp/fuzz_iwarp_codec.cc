// libFuzzer: MPA frames and DDP/RDMAP headers from arbitrary bytes. A decoded value must encode to
// bytes that decode to the same value.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "wire/dat/iwarp/ddp.h"
#include "wire/dat/iwarp/handshake.h"
#include "wire/dat/iwarp/mpa.h"

using namespace dafs::dat::iwarp;

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void TryMpa(std::span<const std::byte> data, MpaFrameKind kind) {
  if (data.size() < kMpaFrameHeaderBytes) return;
  const auto frame = DecodeMpaFrame(kind, data.first<kMpaFrameHeaderBytes>());
  if (!frame.ok()) return;
  data = data.subspan(kMpaFrameHeaderBytes);
  data = data.first(std::min<size_t>(data.size(), frame->private_data_bytes));
  const auto hello =
      kind == MpaFrameKind::kRequest ? JudgeRequest(*frame, data) : JudgeReply(*frame, data);
  if (!hello.ok()) return;
  Require(hello->private_data.size() <= data.size());
  (void)MakeReply({}, *hello, {}, 8);
}

void TrySegment(std::span<const std::byte> ulpdu) {
  SegmentHeader header;
  if (DecodeSegmentHeader(ulpdu, ulpdu.size(), &header).has_value()) return;
  std::byte again[kMaxHeaderBytes];
  EncodeSegmentHeader(header, again);
  SegmentHeader other;
  Require(!DecodeSegmentHeader({again, header.size_bytes()}, header.size_bytes(), &other));
  Require(other == header);
  const std::span<const std::byte> payload = ulpdu.subspan(header.size_bytes());
  if (header.opcode == Opcode::kReadRequest && payload.size() >= kReadRequestBytes) {
    const ReadRequest request = DecodeReadRequest(payload.first<kReadRequestBytes>());
    std::byte bytes[kReadRequestBytes];
    EncodeReadRequest(request, bytes);
    Require(DecodeReadRequest(std::span(bytes)) == request);
  }
  if (header.opcode == Opcode::kTerminate) {
    const auto terminate = DecodeTerminate(payload);
    if (!terminate.has_value()) return;
    (void)Describe(terminate->code);
    std::byte bytes[kMaxTerminateBytes];
    Require(EncodeTerminate(*terminate, bytes) <= sizeof(bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  TryMpa(bytes, MpaFrameKind::kRequest);
  TryMpa(bytes, MpaFrameKind::kReply);
  TrySegment(bytes);
  return 0;
}
