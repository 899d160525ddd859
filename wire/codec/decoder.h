// Decodes field lists from bytes and checks every bound. Spec: WIRE 2.3 to 2.9, 5.1, 7.
//
// The decoder keeps its first error, which is the status of a server's response. After an error
// every read returns zero and no item is entered, so field lists need no branches. It allocates
// memory only after checking that the bytes to fill it exist. It recurses no deeper than the
// message types nest.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "wire/codec/layout.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/limits.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::wire::internal {

enum class Role : uint8_t { kRequest, kResponse };

class Decoder {
 public:
  // `role`: names are checked in requests only (R79), by the rule `names`. `status`: the
  // response's.
  Decoder(std::span<const std::byte> in, ByteOrder order, Role role, DafsStatus status,
          NameRule names = NameRule::kUtf8)
      : in_(in), swap_(NeedsSwap(order)), role_(role), names_(names), status_(status) {}

  bool ok() const { return error_ == DafsStatus::kOk; }
  DafsStatus error() const { return error_; }
  // The largest end of the items read so far.
  size_t extent() const { return extent_; }

  void Fail(DafsStatus status) {
    if (error_ == DafsStatus::kOk) error_ = status;
  }

  // Starts a fixed section of `size` bytes at `position`, to which its offsets are relative.
  void BeginScope(size_t position, size_t size) {
    pos_ = scope_ = position;
    if (position > in_.size() || size > in_.size() - position) return Fail(DafsStatus::kInval);
    fixed_end_ = position + size;
  }
  void SkipTo(size_t position) { pos_ = position; }

  // ---- Operations that field lists call.

  template <class T>
  void Field(const char*, T& value) {
    if constexpr (OpaqueType<T>) {
      pos_ = AlignUp(pos_, T::kWireAlign);
      if (Have(pos_, T::kWireSize)) {
        std::memcpy(value.bytes.data(), in_.data() + pos_, T::kWireSize);
      } else {
        value = T();
      }
      pos_ += T::kWireSize;
    } else if constexpr (std::is_class_v<T>) {
      const size_t start = AlignUp(pos_, T::kWireAlign);
      pos_ = start;
      T::Fields(value, *this);
      pos_ = start + T::kWireSize;
    } else {
      value = static_cast<T>(Number<WireInt<T>>());
      if constexpr (std::is_enum_v<T>) {
        if (ok() && !IsKnown(value)) Fail(DafsStatus::kInval);
      }
    }
  }
  void Bool32(const char*, bool& value) { value = Number<uint32_t>() != 0; }
  void Bool8(const char*, bool& value) { value = Number<uint8_t>() != 0; }
  void Pad32(const char*) { Number<uint32_t>(); }
  void Nseconds(const char*, uint32_t& value) {
    value = Number<uint32_t>();
    if (value > 999'999'999) Fail(DafsStatus::kInval);
  }
  void Mode(const char*, uint32_t& value) {
    value = Number<uint32_t>();
    // Results may contain the type bits, which readers ignore.
    if (role_ == Role::kRequest && (value & ~kModeBits) != 0) Fail(DafsStatus::kInval);
  }

  void Union(const char*, size_t size, size_t alignment, const auto& arm) {
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    if (ok()) arm();  // after an error the discriminator is meaningless
    pos_ = start + size;
  }
  void StatusUnion(const char*, size_t size, size_t alignment, const auto& arm) {
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    if (ok() && IsLockConflict(status_)) arm();
    pos_ = start + size;
  }
  void WhenOk(size_t size, size_t alignment, const auto& part) {
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    if (ok() && status_ == DafsStatus::kOk) part();
    pos_ = start + size;
  }

  void String(const char*, std::string& value, Bound bound,
              Presence presence = Presence::kOptional) {
    std::string_view view;
    String("", view, bound, presence);
    value.assign(view);
  }
  // The same, as a view into the message, for readers that need no copy.
  void String(const char*, std::string_view& value, Bound bound,
              Presence presence = Presence::kOptional) {
    value = {};
    size_t item;
    if (!EnterItem(presence, 4, item)) return;
    value = StringAt(item, bound);
    if (value.empty() && presence == kRequired) Fail(DafsStatus::kInval);
  }
  void OpaqueBytes(const char* name, std::string& value, Bound bound,
                   Presence presence = Presence::kOptional) {
    String(name, value, bound, presence);
  }
  void Name(const char* name, std::string& value) {
    String(name, value, kNameBound, kRequired);
    if (ok() && role_ == Role::kRequest && !IsWireName(value, names_)) Fail(DafsStatus::kInval);
  }

  void Path(const char*, Pathname& path) {
    Strings(path, kPathComponentsMax, kNameBound, kRequired);
    if (role_ != Role::kRequest) return;
    for (const std::string& component : path) {
      if (!IsWireName(component, names_)) return Fail(DafsStatus::kInval);
    }
  }
  void RawPath(const char*, Pathname& path) {
    Strings(path, kPathComponentsMax, kNameBound, Presence::kOptional);
  }
  void Fences(const char*, std::vector<std::string>& ids) {
    Strings(ids, kFenceIdsMax, kFenceIdBound, Presence::kOptional);
    for (const std::string& id : ids) {
      if (id.empty()) return Fail(DafsStatus::kInval);
    }
  }

  template <class V>
  void Array(const char*, V& values, uint32_t max, Presence presence = Presence::kOptional) {
    using T = typename V::value_type;
    values.clear();
    size_t item;
    if (!EnterItem(presence, 4, item)) return;
    uint32_t count;
    if (!ArrayAt<T>(item, max, presence, count)) return;
    const Saved saved = EnterArray<T>(item, count);
    for (uint32_t i = 0; i < count && ok(); ++i) Field("", values.emplace_back());
    Leave(saved);
  }

  template <class A>
  void Attributes(const char*, A& attributes) {
    attributes.included = attributes.valid = 0;
    size_t item;
    if (EnterItem(Presence::kOptional, 16, item)) AttributesAt(item, attributes);
  }
  void Attr(uint64_t bit, size_t size, size_t alignment, const auto& value) {
    if ((included_ & bit) == 0) return;
    const size_t start = AlignUp(pos_, alignment);
    pos_ = start;
    if ((valid_ & bit) != 0) value();
    pos_ = start + size;
  }

  // ---- Single items, for direct buffers and direntry arrays.

  // Reads the attributes structure at `item`.
  template <class A>
  void AttributesAt(size_t item, A& attributes) {
    if (!Have(item, 16)) return;
    const uint64_t included = LoadAs<uint64_t>(in_.data() + item, swap_);
    const uint64_t valid = LoadAs<uint64_t>(in_.data() + item + 8, swap_);
    if ((included & ~A::kAllBits) != 0 || (valid & ~included) != 0) {
      return Fail(DafsStatus::kInval);
    }
    const size_t fixed = AttributesFixedSize(attributes, included);
    if (!Have(item, fixed)) return;
    attributes.included = included;
    attributes.valid = valid;
    Reached(item + fixed);
    const Saved saved = Enter(item, item + fixed);
    const uint64_t outer_included = included_;
    const uint64_t outer_valid = valid_;
    included_ = included;
    valid_ = valid;
    pos_ = item + 16;
    A::Attrs(attributes, *this);
    included_ = outer_included;
    valid_ = outer_valid;
    Leave(saved);
  }

  // Returns the string at `item`; empty after an error.
  std::string_view StringAt(size_t item, Bound bound) {
    if (!Have(item, 4)) return {};
    const uint32_t size = LoadAs<uint32_t>(in_.data() + item, swap_);
    if (!Have(item + 4, size)) return {};
    if (size > bound.max_bytes) {
      Fail(bound.beyond);
      return {};
    }
    Reached(item + 4 + size);
    return {reinterpret_cast<const char*>(in_.data() + item + 4), size};
  }

  // Checks the counted array at `item`. Returns false after an error.
  template <class T>
  bool ArrayAt(size_t item, uint32_t max, Presence presence, uint32_t& count) {
    if (!Have(item, 4)) return false;
    count = LoadAs<uint32_t>(in_.data() + item, swap_);
    const uint64_t bytes = uint64_t{count} * StrideOf<T>();
    if (!Have(item, ArrayHeader<T>()) || !Have(item + ArrayHeader<T>(), bytes)) return false;
    if (count > max || (count == 0 && presence == kRequired)) Fail(DafsStatus::kInval);
    Reached(item + ArrayHeader<T>() + bytes);
    return ok();
  }

  struct Saved {
    size_t pos;
    size_t scope;
    size_t fixed_end;
  };
  // Moves to the first element of the array that ArrayAt has checked.
  template <class T>
  Saved EnterArray(size_t item, uint32_t count) {
    const size_t elements = item + ArrayHeader<T>();
    const Saved saved = Enter(item, elements + count * StrideOf<T>());
    pos_ = elements;
    return saved;
  }
  void Leave(const Saved& saved) {
    pos_ = saved.pos;
    scope_ = saved.scope;
    fixed_end_ = saved.fixed_end;
  }

  // Reads the offset field at the current position. Returns true if it points to an item of at
  // least `least` bytes; `item` is then its position.
  bool EnterItem(Presence presence, size_t least, size_t& item) {
    const uint32_t offset = Number<uint32_t>();
    if (!ok()) return false;
    if (offset == 0) {
      if (presence == kRequired) Fail(DafsStatus::kInval);
      return false;
    }
    item = scope_ + size_t{offset};
    if (offset % 8 != 0 || item < fixed_end_) {
      Fail(DafsStatus::kInval);
      return false;
    }
    return Have(item, least);
  }

  template <class T>
  T Number() {
    pos_ = AlignUp(pos_, sizeof(T));
    const T value = Have(pos_, sizeof(T)) ? LoadAs<T>(in_.data() + pos_, swap_) : T{0};
    pos_ += sizeof(T);
    return value;
  }

 private:
  // Whether `size` bytes at `position` are inside the input. Fails with kInval if not.
  bool Have(size_t position, uint64_t size) {
    if (!ok()) return false;
    if (position <= in_.size() && size <= in_.size() - position) return true;
    Fail(DafsStatus::kInval);
    return false;
  }
  void Reached(size_t end) {
    if (end > extent_) extent_ = end;
  }
  Saved Enter(size_t item, size_t fixed_end) {
    const Saved saved = {pos_, scope_, fixed_end_};
    pos_ = scope_ = item;
    fixed_end_ = fixed_end;
    return saved;
  }

  // Reads a pathname or a fence array. Spec: WIRE 2.8.
  void Strings(std::vector<std::string>& strings, uint32_t max, Bound bound, Presence presence) {
    strings.clear();
    size_t item;
    if (!EnterItem(presence, 8, item)) return;
    const uint32_t count = LoadAs<uint32_t>(in_.data() + item, swap_);
    if (count > max || (count == 0 && presence == kRequired)) return Fail(DafsStatus::kInval);
    Reached(item + 8);
    size_t at = item + 8;
    for (uint32_t i = 0; i < count && ok(); ++i) {
      at = Up8(at);
      const std::string_view s = StringAt(at, bound);
      at += 4 + s.size();
      strings.emplace_back(s);
    }
  }

  std::span<const std::byte> in_;
  bool swap_;
  Role role_;
  NameRule names_;
  DafsStatus status_;
  DafsStatus error_ = DafsStatus::kOk;
  size_t pos_ = 0;        // the next field
  size_t scope_ = 0;      // the position to which offsets are relative
  size_t fixed_end_ = 0;  // no offset of this scope may point before it
  size_t extent_ = 0;
  uint64_t included_ = 0;
  uint64_t valid_ = 0;
};

}  // namespace dafs::wire::internal
