// The arguments of every procedure. If the decoder accepts them, encoding and decoding them again
// gives the same values, and encoding those gives the same bytes.
#include "tests/fuzz/fuzz.h"
#include "wire/rules/request_check.h"

namespace dafs::wire {
namespace {

template <Proc kProc>
void DecodeAndEncode(std::span<const std::byte> message, ByteOrder order, uint32_t padded_at) {
  using Args = typename ProcTraits<kProc>::Args;
  Args args;
  if (DecodeArgs(message, order, args) != DafsStatus::kOk) return;
  (void)CheckRules(args);
  FUZZ_CHECK(!ToString(args).empty());
  EncodeOptions options;
  if constexpr (kProc == Proc::kWriteInline || kProc == Proc::kAppendInline) {
    std::span<const std::byte> data;
    if (FindInlineData(message, args, padded_at, data) != DafsStatus::kOk) return;
    FUZZ_CHECK(data.size() == args.byte_count);
    options.inline_data = {data, args.write_padded ? padded_at : 0};
  }
  const size_t room = EncodedSize(args) + options.inline_data.data.size() + padded_at + 8;
  std::vector<std::byte> once(room, std::byte{0xaa});
  const auto size = EncodeRequest(RequestHeader(), args, order, once, options);
  FUZZ_CHECK(size.ok());
  once.resize(*size);
  Args again;
  FUZZ_CHECK(DecodeArgs(once, order, again) == DafsStatus::kOk);
  std::vector<std::byte> twice(room, std::byte{0x55});
  const auto same = EncodeRequest(RequestHeader(), again, order, twice, options);
  FUZZ_CHECK(same.ok() && *same == *size);
  FUZZ_CHECK(std::memcmp(once.data(), twice.data(), *size) == 0);
}

}  // namespace
}  // namespace dafs::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dafs::wire;
  ByteOrder order;
  const std::vector<std::byte> message = fuzz::Framed({data, size}, kRequestMagic, 36, order);
  if (message.empty()) return 0;
  const auto header = DecodeRequestHeader(message, order);
  FUZZ_CHECK(header.ok());
  // The padded position is taken from a header field that arguments do not depend on.
  const uint32_t padded_at = header->header.desired_nreq % 64 * 8;
  VisitProc(header->header.procedure,
            [&]<Proc kProc>() { DecodeAndEncode<kProc>(message, order, padded_at); });
  return 0;
}
