#include "wire/codec/attributes_after.h"

#include <cstring>

#include "wire/codec/checksum.h"
#include "wire/codec/direct.h"
#include "wire/codec/layout.h"
#include "wire/protocol/header.h"

namespace dafs::wire {
namespace {

using internal::kChecksumAt;
using internal::LoadAs;
using internal::NeedsSwap;
using internal::StoreAs;
using internal::Up8;

constexpr size_t kFixedBytes = 16;
// Places in the response header.
constexpr size_t kLengthAt = 32;
constexpr size_t kAttributesAt = 36;

absl::Status Malformed() {
  return absl::DataLossError("response: malformed attributes after the result");
}

// Reads the item to which the offset at `at` of `part` leads, if any.
absl::Status DecodeItem(std::span<const std::byte> part, size_t at, ByteOrder order,
                        FileAttributes& attributes) {
  const uint32_t offset = LoadAs<uint32_t>(part.data() + at, NeedsSwap(order));
  if (offset == 0) return absl::OkStatus();
  if (offset % 8 != 0 || offset < kFixedBytes || offset >= part.size()) return Malformed();
  return DecodeDirect(part.subspan(offset), order, attributes).status();
}

}  // namespace

absl::StatusOr<size_t> AppendAttributes(const AttributesAfter& after, ByteOrder order,
                                        std::span<std::byte> out, size_t message_bytes,
                                        bool checksum) {
  const bool swap = NeedsSwap(order);
  const std::span<std::byte> part = out.subspan(message_bytes);
  size_t end = kFixedBytes;
  // Returns the offset of the item; 0: none.
  auto append = [&](const FileAttributes& attributes) -> absl::StatusOr<uint32_t> {
    if (attributes.included == 0) return 0;
    if (end > part.size()) return absl::FailedPreconditionError("no room for attributes");
    const size_t at = end;
    absl::StatusOr<size_t> size = EncodeDirect(attributes, order, part.subspan(at));
    if (!size.ok()) return size.status();
    end = Up8(at + *size);
    if (end > part.size()) return absl::FailedPreconditionError("no room for attributes");
    std::memset(part.data() + at + *size, 0, end - at - *size);
    return static_cast<uint32_t>(at);
  };
  const absl::StatusOr<uint32_t> current = append(after.current);
  if (!current.ok()) return current.status();
  const absl::StatusOr<uint32_t> other = append(after.other);
  if (!other.ok()) return other.status();
  if (end > part.size()) return absl::FailedPreconditionError("no room for attributes");
  StoreAs(part.data(), *current, swap);
  StoreAs(part.data() + 4, uint32_t{after.current_promise}, swap);
  StoreAs(part.data() + 8, *other, swap);
  StoreAs(part.data() + 12, uint32_t{after.other_promise}, swap);
  const size_t whole = message_bytes + end;
  StoreAs(out.data() + kLengthAt, static_cast<uint32_t>(whole), swap);
  StoreAs(out.data() + kAttributesAt, static_cast<uint32_t>(message_bytes), swap);
  if (checksum) {
    std::memset(out.data() + kChecksumAt, 0, 4);
    const Checksum sum = ComputeChecksum(out.first(whole), order);
    StoreAs(out.data() + kChecksumAt, sum.s2, swap);
    StoreAs(out.data() + kChecksumAt + 2, sum.s1, swap);
  }
  return whole;
}

absl::Status DecodeAttributes(std::span<const std::byte> message, uint32_t attributes_at,
                              ByteOrder order, AttributesAfter& after) {
  after = {};
  if (attributes_at % 8 != 0 || attributes_at < kHeaderSize || attributes_at > message.size() ||
      message.size() - attributes_at < kFixedBytes) {
    return Malformed();
  }
  const std::span<const std::byte> part = message.subspan(attributes_at);
  const bool swap = NeedsSwap(order);
  after.current_promise = static_cast<uint16_t>(LoadAs<uint32_t>(part.data() + 4, swap));
  after.other_promise = static_cast<uint16_t>(LoadAs<uint32_t>(part.data() + 12, swap));
  absl::Status status = DecodeItem(part, 0, order, after.current);
  if (status.ok()) status = DecodeItem(part, 8, order, after.other);
  return status;
}

}  // namespace dafs::wire
