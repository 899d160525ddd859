// libFuzzer: a live endpoint whose peer sends the input. The first byte selects: bit 0 CRC, bit 1
// whether the bytes are whole ULPDUs (length byte, then that many bytes) put into valid FPDUs, bit
// 2 an RDMA read of ours in flight. 0xA0..0xA2 in the first STag byte of a ULPDU are replaced by
// existing contexts, so that the fuzzer gets past the key. Nothing outside the registered memory
// may change, and each receive must be reported once.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/wire/dat/iwarp/raw_peer.h"

using namespace dafs::dat;
using namespace dafs::dat::testing;

namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

// Replaces the STag and target address of a segment by those of `memory`. The low bits of the
// address are kept as an offset.
void Aim(ByteString& ulpdu, const Memory& memory) {
  if (ulpdu.size() < 14) return;
  const RemoteBuffer to = memory.Remote(std::to_integer<size_t>(ulpdu[13]));
  iwarp::SegmentHeader header;
  header.tagged = true;
  header.stag = to.context;
  header.to = to.target_address;
  std::byte bytes[iwarp::kTaggedHeaderBytes];
  iwarp::EncodeSegmentHeader(header, bytes);
  std::memcpy(&ulpdu[2], bytes + 2, sizeof(bytes) - 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const unsigned choice = data[0];
  const bool crc = (choice & 1) != 0;
  constexpr uint64_t kReceives = 4;
  std::unique_ptr<RawPair> pair;
  Memory receive, target, source, sink;
  const auto prepare = [&](Side& side) {
    receive = NewMemory(*side.domain, 256, Access::kLocal);
    target = NewMemory(*side.domain, 512, Access::kRemoteWrite);
    source = NewMemory(*side.domain, 512, Access::kRemoteRead);
    sink = NewMemory(*side.domain, 64, Access::kLocal);
    for (uint64_t i = 0; i < kReceives; ++i) {
      Require(side.endpoint->PostReceive(i, receive.At(i * 64, 64)).ok());
    }
  };
  // Hundreds of connections a second can use up the local ports for a while.
  for (int attempt = 0; attempt < 100 && pair == nullptr; ++attempt) {
    if (attempt > 0) absl::SleepFor(absl::Milliseconds(50));
    pair = NewRawPair(crc, {}, prepare);
  }
  Require(pair != nullptr);
  if ((choice & 4) != 0) {
    const Segment into = sink.All();
    Require(pair->side.endpoint->PostRdmaRead(1, {&into, 1}, {}).ok());
  }
  ByteString stream;
  if ((choice & 2) == 0) {
    stream.assign(reinterpret_cast<const std::byte*>(data) + 1,
                  reinterpret_cast<const std::byte*>(data) + size);
  } else {
    for (size_t at = 1; at < size;) {
      const size_t length = std::min<size_t>(data[at], size - at - 1);
      ByteString ulpdu(reinterpret_cast<const std::byte*>(data) + at + 1,
                       reinterpret_cast<const std::byte*>(data) + at + 1 + length);
      at += 1 + length;
      if (ulpdu.size() > 2 && ulpdu[2] == std::byte{0xa0}) Aim(ulpdu, target);
      if (ulpdu.size() > 2 && ulpdu[2] == std::byte{0xa1}) Aim(ulpdu, source);
      if (ulpdu.size() > 2 && ulpdu[2] == std::byte{0xa2}) Aim(ulpdu, sink);
      const ByteString fpdu = MakeFpdu(ulpdu, crc);
      stream.insert(stream.end(), fpdu.begin(), fpdu.end());
    }
  }
  (void)pair->peer->Write(stream);
  pair->peer->CloseWriting();
  const absl::Time end = absl::Now() + absl::Seconds(8);  // before libFuzzer's own -timeout
  while (pair->side.Count(Event::kDisconnected) == 0 && absl::Now() < end) pair->side.Poll();
  Require(pair->side.Count(Event::kDisconnected) == 1);
  Require(pair->side.seen.back().event == Event::kDisconnected);
  Require(pair->side.Count(Event::kReceive) == kReceives);
  for (std::byte byte : source.bytes) Require(byte == std::byte{0});
  return 0;
}
