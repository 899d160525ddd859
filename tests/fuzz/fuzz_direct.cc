// The structured content of direct buffers, and attributes after a result. The first byte selects:
// bit 0 the byte order, the rest modulo 4 attributes, entries, a string, or attributes after a
// result.
#include <algorithm>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "wire/codec/attributes_after.h"
#include "wire/codec/direct.h"
#include "wire/protocol/header.h"
#include "wire/rules/argument_rules.h"

namespace dafs::wire {
namespace {

void Attributes(std::span<const std::byte> content, ByteOrder order) {
  FileAttributes attributes;
  const auto extent = DecodeDirect(content, order, attributes);
  if (!extent.ok()) return;
  FUZZ_CHECK(*extent <= content.size());
  (void)CheckSettable(attributes);
  std::vector<std::byte> once(DirectSize(attributes), std::byte{0xaa});
  const auto size = EncodeDirect(attributes, order, once);
  FUZZ_CHECK(size.ok() && *size == once.size());
  FileAttributes again;
  FUZZ_CHECK(DecodeDirect(once, order, again).ok());
  std::vector<std::byte> twice(once.size(), std::byte{0x55});
  FUZZ_CHECK(EncodeDirect(again, order, twice).ok() && once == twice);
}

void Entries(std::span<const std::byte> content, ByteOrder order) {
  DirentReader reader;
  if (!reader.OpenDirect(content, order).ok()) return;
  // Items may be shared, so the entries can be larger than the content. The buffer bounds them.
  std::vector<std::byte> once(64 * 1024);
  DirentArrayBuilder builder(order, once);
  DirentView entry;
  bool all = true;
  while (reader.Next(entry)) {
    FUZZ_CHECK(!entry.name.empty());
    all = all && builder.Add(entry.cookie, *entry.attrs, entry.name);
  }
  FUZZ_CHECK(reader.extent() <= content.size());
  if (!reader.status().ok() || !all) return;
  once.resize(builder.Finish());
  std::vector<std::byte> twice(once.size(), std::byte{0x55});
  DirentArrayBuilder rebuilder(order, twice);
  FUZZ_CHECK(reader.OpenDirect(once, order).ok());
  while (reader.Next(entry)) FUZZ_CHECK(rebuilder.Add(entry.cookie, *entry.attrs, entry.name));
  FUZZ_CHECK(reader.status().ok() && reader.extent() == once.size());
  FUZZ_CHECK(rebuilder.Finish() == once.size() && once == twice);
}

void String(std::span<const std::byte> content, ByteOrder order) {
  const auto text = DecodeDirectString(content, order);
  if (!text.ok()) return;
  std::vector<std::byte> out(4 + text->size());
  FUZZ_CHECK(EncodeDirectString(*text, order, out).ok());
  FUZZ_CHECK(std::equal(out.begin(), out.end(), content.begin()));
}

void After(std::span<const std::byte> content, ByteOrder order) {
  std::vector<std::byte> message(kHeaderSize);
  message.insert(message.end(), content.begin(), content.end());
  AttributesAfter after;
  if (!DecodeAttributes(message, kHeaderSize, order, after).ok()) return;
  std::vector<std::byte> once(kHeaderSize + 16 + DirectSize(after.current) +
                              DirectSize(after.other) + 16);
  const auto size = AppendAttributes(after, order, once, kHeaderSize, false);
  FUZZ_CHECK(size.ok() && *size <= once.size());
  AttributesAfter again;
  FUZZ_CHECK(DecodeAttributes(std::span(once).first(*size), kHeaderSize, order, again).ok());
  std::vector<std::byte> twice(once.size());
  const auto same = AppendAttributes(again, order, twice, kHeaderSize, false);
  FUZZ_CHECK(same.ok() && *same == *size);
  FUZZ_CHECK(std::equal(once.begin(), once.begin() + *size, twice.begin()));
}

}  // namespace
}  // namespace dafs::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dafs::wire;
  if (size == 0) return 0;
  const ByteOrder order = (data[0] & 1) != 0 ? ByteOrder::kBig : ByteOrder::kLittle;
  const auto* bytes = reinterpret_cast<const std::byte*>(data) + 1;
  const std::vector<std::byte> content(bytes, bytes + size - 1);
  switch (data[0] / 2 % 4) {
    case 0:
      Attributes(content, order);
      break;
    case 1:
      Entries(content, order);
      break;
    case 2:
      String(content, order);
      break;
    default:
      After(content, order);
      break;
  }
  return 0;
}
