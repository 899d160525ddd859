// Encodes field lists in canonical form. Spec: WIRE 2.3 to 2.9, 5.1.
//
// Encoding takes one pass. An offset field places its item at the next multiple of 8 after all
// bytes written so far. The encoder visits that item's own offset fields before it continues with
// the outer structure, which is the depth-first order of 2.6. After its first error, and without an
// `out`, the encoder only counts.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "wire/codec/layout.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/limits.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire::internal {

class Encoder {
 public:
  // Writes to `out`. `status` selects the parts of results that depend on it.
  Encoder(std::span<std::byte> out, ByteOrder order, DafsStatus status)
      : data_(out.data()), limit_(out.size()), swap_(NeedsSwap(order)), status_(status) {}
  // Only counts. Includes every part that some status requires.
  Encoder() : swap_(false), all_parts_(true) {}

  DafsStatus error() const { return error_; }
  // The end of the last item.
  size_t end() const { return end_; }

  // Starts the fixed section of `size` bytes at `position`, to which its offsets are relative.
  // Writes zeros from the last written byte to the end of the section.
  void BeginScope(size_t position, size_t size) {
    Reserve(position + size - end_);
    scope_ = pos_ = position;
  }

  // ---- Operations that field lists call. The decoder and the printer have the same.
  //
  //   Field                a number, an enum, opaque bytes of fixed size, or a struct with Fields
  //   Bool32, Bool8        a bool in 4 bytes, in 1 byte
  //   Pad32                a field that is zero
  //   Nseconds, Mode       numbers whose range the decoder checks
  //   Union                an area of `size` bytes; `arm` visits the fields of the arm in use
  //   StatusUnion          the same; the fields exist only with DENIED and LOCK_BROKEN
  //   WhenOk               the same; the fields are zero unless the status is OK
  //   String, OpaqueBytes  bytes in the heap, at most `bound`; empty: the offset is 0
  //   Name, Path           names in the heap, which the decoder checks; RawPath: it does not
  //   Fences, Array        elements in the heap, at most `max`
  //   Attributes           an attributes structure in the heap; its Attrs calls Attr for each bit

  template <class T>
  void Field(const char*, const T& value) {
    if constexpr (OpaqueType<T>) {
      pos_ = AlignUp(pos_, T::kWireAlign);
      PutBytes(pos_, value.bytes.data(), T::kWireSize);
      pos_ += T::kWireSize;
    } else if constexpr (std::is_class_v<T>) {
      const size_t start = AlignUp(pos_, T::kWireAlign);
      pos_ = start;
      T::Fields(value, *this);
      pos_ = start + T::kWireSize;
    } else {
      Number(static_cast<WireInt<T>>(value));
    }
  }
  void Bool32(const char*, bool value) { Number<uint32_t>(value); }
  void Bool8(const char*, bool value) { Number<uint8_t>(value); }
  void Pad32(const char*) { Number<uint32_t>(0); }
  void Nseconds(const char*, uint32_t value) { Number(value); }
  void Mode(const char*, uint32_t value) { Number(value); }

  void Union(const char*, size_t size, size_t alignment, const auto& arm) {
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    arm();
    pos_ = start + size;
  }
  void StatusUnion(const char*, size_t size, size_t alignment, const auto& arm) {
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    if (all_parts_ || IsLockConflict(status_)) arm();
    pos_ = start + size;
  }
  void WhenOk(size_t size, size_t alignment, const auto& part) {
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    if (all_parts_ || status_ == DafsStatus::kOk) part();
    pos_ = start + size;
  }

  void String(const char*, std::string_view value, Bound bound, Presence = Presence::kOptional) {
    if (value.empty()) return Number<uint32_t>(0);
    if (value.size() > bound.max_bytes) return Fail(bound.beyond);
    const size_t item = PlaceItem(4 + value.size());
    PutString(item, value);
  }
  void OpaqueBytes(const char* name, std::string_view value, Bound bound,
                   Presence presence = Presence::kOptional) {
    String(name, value, bound, presence);
  }
  void Name(const char* name, std::string_view value) {
    String(name, value, kNameBound, kRequired);
  }

  void Path(const char*, const Pathname& path) { Strings(path, kPathComponentsMax, kNameBound); }
  void RawPath(const char*, const Pathname& path) { Strings(path, kPathComponentsMax, kNameBound); }
  void Fences(const char*, const std::vector<std::string>& ids) {
    Strings(ids, kFenceIdsMax, kFenceIdBound);
  }

  template <class V>
  void Array(const char*, const V& values, uint32_t max, Presence = Presence::kOptional) {
    using T = typename V::value_type;
    if (values.empty()) return Number<uint32_t>(0);
    if (values.size() > max) return Fail(DafsStatus::kInval);
    const size_t elements = ArrayHeader<T>();
    const size_t item = PlaceItem(elements + values.size() * StrideOf<T>());
    const Saved saved = Enter(item);
    Put<uint32_t>(item, static_cast<uint32_t>(values.size()));
    pos_ = item + elements;
    for (const T& value : values) Field("", value);
    Leave(saved);
  }

  template <class A>
  void Attributes(const char*, const A& attributes) {
    if ((attributes.included & A::kAllBits) == 0) return Number<uint32_t>(0);
    const size_t position = AlignUp(pos_, 4);
    const size_t item = AttributesItem(attributes);
    Put(position, static_cast<uint32_t>(item - scope_));
    pos_ = position + 4;
  }
  void Attr(uint64_t bit, size_t size, size_t alignment, const auto& value) {
    if ((included_ & bit) == 0) return;
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    if ((valid_ & bit) != 0) value();
    pos_ = start + size;
  }

  // ---- Single items, for the content of direct buffers and the heap of a direntry array.

  // Places one attributes structure at the end of the heap; returns its position.
  template <class A>
  size_t AttributesItem(const A& attributes) {
    const uint64_t included = attributes.included & A::kAllBits;
    const size_t item = Reserve(AttributesFixedSize(attributes, included));
    const Saved saved = Enter(item);
    const uint64_t outer_included = included_;
    const uint64_t outer_valid = valid_;
    included_ = included;
    valid_ = attributes.valid & included;
    Number(included_);
    Number(valid_);
    A::Attrs(attributes, *this);
    included_ = outer_included;
    valid_ = outer_valid;
    Leave(saved);
    return item;
  }
  // Places one string at the end of the heap; returns its position.
  size_t StringItem(std::string_view value, Bound bound) {
    if (value.size() > bound.max_bytes) Fail(bound.beyond);
    const size_t item = Reserve(4 + value.size());
    PutString(item, value);
    return item;
  }

  template <class T>
  void Number(T value) {
    pos_ = AlignUp(pos_, sizeof(T));
    Put(pos_, value);
    pos_ += sizeof(T);
  }

  // Writes zero bytes from the last item's end to `position`, if `position` is greater.
  void PadTo(size_t position) {
    if (position <= end_) return;
    if (position > limit_ && data_ != nullptr) Fail(DafsStatus::kTooSmall);
    if (data_ != nullptr) std::memset(data_ + end_, 0, position - end_);
    end_ = position;
  }

 private:
  struct Saved {
    size_t pos;
    size_t scope;
  };
  Saved Enter(size_t item) {
    const Saved saved = {pos_, scope_};
    pos_ = scope_ = item;
    return saved;
  }
  void Leave(const Saved& saved) {
    pos_ = saved.pos;
    scope_ = saved.scope;
  }

  void Fail(DafsStatus status) {
    if (error_ == DafsStatus::kOk) error_ = status;
    data_ = nullptr;
  }

  // Reserves `size` zero bytes at the next multiple of 8. Returns their position.
  size_t Reserve(size_t size) {
    const size_t item = Up8(end_);
    PadTo(item + size);
    return item;
  }
  // The same, for the item that the offset field at pos_ points to.
  size_t PlaceItem(size_t size) {
    const size_t item = Reserve(size);
    Number(static_cast<uint32_t>(item - scope_));
    return item;
  }

  template <class T>
  void Put(size_t position, T value) {
    if (data_ != nullptr) StoreAs(data_ + position, value, swap_);
  }
  void PutBytes(size_t position, const void* from, size_t size) {
    if (data_ != nullptr && size > 0) std::memcpy(data_ + position, from, size);
  }
  void PutString(size_t item, std::string_view value) {
    Put(item, static_cast<uint32_t>(value.size()));
    PutBytes(item + 4, value.data(), value.size());
  }

  // Places a pathname or a fence array: the strings are inline, each at a multiple of 8. Spec: 2.8.
  void Strings(const std::vector<std::string>& strings, uint32_t max, Bound bound) {
    if (strings.empty()) return Number<uint32_t>(0);
    if (strings.size() > max) return Fail(DafsStatus::kInval);
    size_t extent = 8;
    for (const std::string& s : strings) {
      if (s.size() > bound.max_bytes) return Fail(bound.beyond);
      extent = Up8(extent) + 4 + s.size();
    }
    const size_t item = PlaceItem(extent);
    Put(item, static_cast<uint32_t>(strings.size()));
    size_t at = item + 8;
    for (const std::string& s : strings) {
      at = Up8(at);
      PutString(at, s);
      at += 4 + s.size();
    }
  }

  std::byte* data_ = nullptr;  // null: count only
  size_t limit_ = 0;
  bool swap_;
  bool all_parts_ = false;
  DafsStatus status_ = DafsStatus::kOk;
  DafsStatus error_ = DafsStatus::kOk;
  size_t pos_ = 0;    // the next field
  size_t scope_ = 0;  // the position to which offsets are relative
  size_t end_ = 0;    // the end of all written bytes
  uint64_t included_ = 0;
  uint64_t valid_ = 0;
};

}  // namespace dafs::wire::internal
