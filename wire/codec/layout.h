// Helpers of encoder, decoder and printer: alignment, byte order, the size of attribute bodies.
// Spec: WIRE 2.2, 2.3, 2.7, 5.1. For the .cc files of this folder.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire::internal {

constexpr size_t AlignUp(size_t position, size_t alignment) {
  return (position + alignment - 1) & ~(alignment - 1);
}
constexpr size_t Up8(size_t position) { return AlignUp(position, 8); }

// Where both headers have message_checksum: S2, then S1.
inline constexpr size_t kChecksumAt = 24;

static_assert(std::endian::native == std::endian::little, "ByteOrder::kLittle is not swapped");
constexpr bool NeedsSwap(ByteOrder order) { return order == ByteOrder::kBig; }

template <class T>
T Swapped(T value) {
  if constexpr (sizeof(T) == 1) return value;
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
}

template <class T>
T LoadAs(const std::byte* at, bool swap) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return swap ? Swapped(value) : value;
}
template <class T>
void StoreAs(std::byte* at, T value, bool swap) {
  if (swap) value = Swapped(value);
  std::memcpy(at, &value, sizeof(T));
}

template <class T>
concept OpaqueType = requires(T t) {
  t.bytes;
  T::kWireAlign;
};

// The unsigned integer that carries a number or an enum on the wire.
template <class T>
struct Underlying {
  using type = std::make_unsigned_t<T>;
};
template <class T>
requires std::is_enum_v<T>
struct Underlying<T> {
  using type = std::make_unsigned_t<std::underlying_type_t<T>>;
};
template <class T>
using WireInt = typename Underlying<std::remove_const_t<T>>::type;

// Size and alignment of an array element.
template <class T>
constexpr size_t StrideOf() {
  if constexpr (std::integral<T>) {
    return sizeof(T);
  } else {
    return T::kWireSize;
  }
}
template <class T>
constexpr size_t AlignOf() {
  if constexpr (std::integral<T>) {
    return sizeof(T);
  } else {
    return T::kWireAlign;
  }
}
// Offset of the first element from the count word.
template <class T>
constexpr size_t ArrayHeader() {
  return AlignOf<T>() == 8 ? 8 : 4;
}

// Whether the result of LOCK or LOCKT contains the conflicting lock.
constexpr bool IsLockConflict(DafsStatus status) {
  return status == DafsStatus::kDenied || status == DafsStatus::kLockBroken;
}

// Adds up the size of the fixed part of an attributes structure, for the bits in `included`.
class AttributeLayout {
 public:
  explicit AttributeLayout(uint64_t included) : included_(included) {}

  void Attr(uint64_t bit, size_t size, size_t alignment, const auto&) {
    if ((included_ & bit) != 0) end_ = AlignUp(end_, alignment) + size;
  }
  size_t fixed_size() const { return Up8(end_); }

  // The values do not matter.
  void Field(const auto&...) {}
  void Bool8(const auto&...) {}
  void Mode(const auto&...) {}
  void String(const auto&...) {}
  void Array(const auto&...) {}

 private:
  uint64_t included_;
  size_t end_ = 16;  // after `included` and `valid`
};

template <class Attributes>
size_t AttributesFixedSize(const Attributes& attributes, uint64_t included) {
  AttributeLayout layout(included);
  Attributes::Attrs(attributes, layout);
  return layout.fixed_size();
}

}  // namespace dafs::wire::internal
