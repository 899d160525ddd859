// The results of every procedure. The reserved word of the header, which decoders ignore, selects
// the procedure: byte 36 is its index in the table, byte 37 the claim of an OPEN.
#include "tests/fuzz/fuzz.h"
#include "wire/codec/direct.h"

namespace dafs::wire {
namespace {

template <Proc kProc>
void DecodeAndEncode(std::span<const std::byte> message, ByteOrder order,
                     const ResponseHeader& header, OpenClaimType claim) {
  using Res = typename ProcTraits<kProc>::Res;
  Res res;
  const bool ok = DecodeRes(message, order, header.status, res, claim).ok();
  if constexpr (kProc == Proc::kReaddirInline) {
    if (header.status == DafsStatus::kOk && message.size() >= 56) {
      // The reader that does not allocate must give the same verdict and the same entries.
      DirentReader reader;
      Verifier cookieverf;
      bool eof = false;
      bool read = reader.OpenInline(message, order, cookieverf, eof).ok();
      DirentView entry;
      size_t count = 0;
      while (read && reader.Next(entry)) {
        FUZZ_CHECK(!ok || (entry.name == res.entries[count].name &&
                           entry.cookie == res.entries[count].cookie));
        ++count;
      }
      read = read && reader.status().ok();
      FUZZ_CHECK(read == ok);
      FUZZ_CHECK(!ok || count == res.entries.size());
    }
  }
  if (!ok) return;
  FUZZ_CHECK(!ToString(res).empty());
  EncodeOptions options;
  options.claim_type = claim;
  if constexpr (kProc == Proc::kReadInline) {
    const auto data = FindInlineData(message, res);
    if (!data.ok()) return;
    FUZZ_CHECK(data->size() == res.bytes_read);
    options.inline_data = {*data, 0};
  }
  const size_t room = EncodedSize(res) + options.inline_data.data.size() + 8;
  std::vector<std::byte> once(room, std::byte{0xaa});
  const auto size = EncodeResponse(header, res, order, once, options);
  FUZZ_CHECK(size.ok());
  once.resize(*size);
  Res again;
  FUZZ_CHECK(DecodeRes(once, order, header.status, again, claim).ok());
  std::vector<std::byte> twice(room, std::byte{0x55});
  const auto same = EncodeResponse(header, again, order, twice, options);
  FUZZ_CHECK(same.ok() && *same == *size);
  FUZZ_CHECK(std::memcmp(once.data(), twice.data(), *size) == 0);
}

}  // namespace
}  // namespace dafs::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dafs::wire;
  ByteOrder order;
  const std::vector<std::byte> message = fuzz::Framed({data, size}, kResponseMagic, 32, order);
  if (message.empty()) return 0;
  const auto header = DecodeResponseHeader(message, order);
  FUZZ_CHECK(header.ok());
  const size_t row = std::to_integer<size_t>(message[36]) % kProcedures.size();
  const auto claim = static_cast<OpenClaimType>(std::to_integer<uint32_t>(message[37]) % 5);
  VisitProc(kProcedures[row].number,
            [&]<Proc kProc>() { DecodeAndEncode<kProc>(message, order, header->header, claim); });
  return 0;
}
