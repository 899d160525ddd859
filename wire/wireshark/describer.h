// Describes the layout of messages as Lua tables, from their field lists (wire/messages).
//
// A target of field lists like the encoder. It notes the place of each field. It visits every arm
// of a union: it sets the discriminator, which is the enum field before the union, to each of its
// values. A field list that this rule does not fit ends in std::logic_error, and so fails the
// build.
//
// One field is {n=name, k=kind, o=offset in its structure, ...}. dissector.lua documents the kinds
// beside the code that shows them. Values; one thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/text.h"
#include "wire/codec/layout.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/limits.h"
#include "wire/protocol/types.h"
#include "wire/wireshark/enum_names.h"

namespace dafs::wire::wireshark {

// Facts about fields that all messages share.
struct Shared {
  std::map<std::string, std::vector<std::string_view>, std::less<>> enums;  // names by value
  // Whether a field is one that DAFS_CHF_FH or DAFS_CHF_STATEID replaces.
  std::function<bool(const void* field)> is_replaced = [](const void*) { return false; };
};

class Describer {
 public:
  explicit Describer(Shared& shared) : shared_(shared) {}

  // The tables of the fields, each followed by a comma.
  std::string Take() { return std::move(out_); }
  // The size of the structure, with the padding at its end.
  size_t size() const { return internal::AlignUp(pos_, align_); }

  // ---- Operations that field lists call: see wire/codec/encoder.h.

  template <class T>
  void Field(const char* name, T& value) {
    if constexpr (internal::OpaqueType<T> || std::is_same_v<T, FileHandle>) {
      Add(name, "bytes", T::kWireSize, T::kWireAlign,
          absl::StrCat(",s=", T::kWireSize, Text(Mark(&value))));
    } else if constexpr (std::is_same_v<T, Time>) {
      Add(name, "time", T::kWireSize, T::kWireAlign);
    } else if constexpr (std::is_class_v<T>) {
      Describer inner(shared_);
      T::Fields(value, inner);
      if (inner.size() > T::kWireSize) Fail(name, "is longer than its kWireSize");
      Add(name, "struct", T::kWireSize, T::kWireAlign,
          absl::StrCat(",s=", T::kWireSize, ",f={", inner.Take(), "}"));
    } else if constexpr (std::is_enum_v<T>) {
      Enum(name, value);
    } else {
      Number(name, NumberKind<T>(), sizeof(T));
    }
  }
  void Bool32(const char* name, bool&) { Number(name, "bool32", 4); }
  void Bool8(const char* name, bool&) { Number(name, "bool8", 1); }
  void Pad32(const char*) {
    pos_ = internal::AlignUp(pos_, 4) + 4;
    align_ = std::max<size_t>(align_, 4);
  }
  void Nseconds(const char* name, uint32_t&) { Number(name, "u32", 4); }
  void Mode(const char* name, uint32_t&) { Number(name, "mode", 4); }

  void Union(const char* name, size_t size, size_t alignment, const auto& arm) {
    if (!discriminator_.has_value()) Fail(name, "has no enum field before it");
    const Discriminator by = *discriminator_;
    std::vector<std::pair<std::string, std::string>> arms;  // fields, the values that select them
    for (const uint32_t value : by.values) {
      by.set(value);
      std::string fields = Part(name, size, alignment, arm);
      if (fields.empty()) continue;
      const auto same = std::find_if(arms.begin(), arms.end(),
                                     [&](const auto& other) { return other.first == fields; });
      if (same == arms.end()) {
        arms.emplace_back(std::move(fields), std::to_string(value));
      } else {
        absl::StrAppend(&same->second, ",", value);
      }
    }
    if (arms.empty()) Fail(name, "has no field for any value of the enum field before it");
    std::string text;
    for (const auto& [fields, values] : arms) {
      absl::StrAppend(&text, "{v={", values, "},f={", fields, "}},");
    }
    discriminator_ = by;
    Add(name, "union", size, alignment,
        absl::StrCat(",d=", by.offset, ",ds=", by.size, ",arms={", text, "}"));
  }
  void StatusUnion(const char* name, size_t size, size_t alignment, const auto& arm) {
    const std::string fields = Part(name, size, alignment, arm);
    Add(name, "lock_conflict", size, alignment, absl::StrCat(",f={", fields, "}"));
  }
  void WhenOk(size_t size, size_t alignment, const auto& part) {
    const std::string fields = Part("part", size, alignment, part);
    Add("", "when_ok", size, alignment, absl::StrCat(",f={", fields, "}"));
  }

  void String(const char* name, std::string&, Bound, Presence presence = Presence::kOptional) {
    Item(name, "string", presence);
  }
  void OpaqueBytes(const char* name, std::string&, Bound, Presence presence = Presence::kOptional) {
    Item(name, "opaque", presence);
  }
  void Name(const char* name, std::string&) { Item(name, "name", kRequired); }
  void Path(const char* name, Pathname&) { Item(name, "path", kRequired); }
  void RawPath(const char* name, Pathname&) { Item(name, "path", Presence::kOptional); }
  void Fences(const char* name, std::vector<std::string>&) {
    Item(name, "path", Presence::kOptional, ",sep=', '");
  }

  template <class V>
  void Array(const char* name, V&, uint32_t, Presence presence = Presence::kOptional) {
    using T = typename V::value_type;
    T element = {};
    Describer inner(shared_);
    inner.Field("", element);
    Item(name, "array", presence,
         absl::StrCat(",head=", internal::ArrayHeader<T>(), ",s=", internal::StrideOf<T>(),
                      ",e=", inner.Take()));
  }

  template <class A>
  void Attributes(const char* name, A&) {
    constexpr bool kOfFile = std::is_same_v<A, FileAttributes>;
    Item(name, "attributes", Presence::kOptional,
         kOfFile ? ",of=file_attributes" : ",of=fs_attributes");
  }
  // One attribute. The others of its structure decide about its offset.
  void Attr(uint64_t bit, size_t size, size_t alignment, const auto& value) {
    pos_ = 0;
    const std::string outer = std::exchange(out_, "");
    value();
    const std::string field = std::exchange(out_, outer);
    absl::StrAppend(&out_, "{b=", std::countr_zero(bit), ",s=", size, ",a=", alignment,
                    ",f=", field, "},\n");
  }

 private:
  struct Discriminator {
    size_t offset;
    size_t size;
    std::vector<uint32_t> values;
    std::function<void(uint32_t)> set;
  };

  [[noreturn]] static void Fail(std::string_view name, std::string_view why) {
    throw std::logic_error(absl::StrCat(Text(name), " ", Text(why)));
  }

  void Add(std::string_view name, std::string_view kind, size_t size, size_t alignment,
           std::string_view more = "") {
    const size_t offset = internal::AlignUp(pos_, alignment);
    absl::StrAppend(&out_, "{n='", Text(name), "',k='", Text(kind), "',o=", offset, Text(more),
                    "},");
    pos_ = offset + size;
    align_ = std::max(align_, alignment);
  }
  void Number(const char* name, std::string_view kind, size_t size, std::string_view more = "") {
    Add(name, kind, size, size, more);
  }
  template <class T>
  static std::string NumberKind() {
    return absl::StrCat(std::is_signed_v<T> ? "i" : "u", 8 * sizeof(T));
  }
  void Item(const char* name, std::string_view kind, Presence presence,
            std::string_view more = "") {
    Add(name, kind, 4, 4, absl::StrCat(presence == kRequired ? ",required=true" : "", Text(more)));
  }
  std::string_view Mark(const void* field) const {
    return shared_.is_replaced(field) ? ",replaced=true" : "";
  }

  template <class T>
  void Enum(const char* name, T& value) {
    std::vector<uint32_t> values;
    for (uint32_t v = 0; v < kEnumValues; ++v) {
      if (IsKnown(static_cast<T>(v))) values.push_back(v);
    }
    for (uint32_t v = kEnumValues; v < 256; ++v) {
      if (IsKnown(static_cast<T>(v)) && !AcceptsAll<T>()) Fail(name, "has values past kEnumValues");
    }
    shared_.enums.try_emplace(std::string(EnumName<T>()), EnumeratorNames<T>());
    Number(name, NumberKind<internal::WireInt<T>>(), sizeof(T),
           absl::StrCat(",enum='", Text(EnumName<T>()), "'"));
    discriminator_ = {pos_ - sizeof(T), sizeof(T), std::move(values),
                      [&value](uint32_t v) { value = static_cast<T>(v); }};
  }
  // Whether decoding accepts every number as a T, such as ObjectType.
  template <class T>
  static constexpr bool AcceptsAll() {
    return IsKnown(static_cast<T>(0xffff));
  }

  // The fields that `visit` finds in an area of `size` bytes. Stays before the area.
  std::string Part(std::string_view name, size_t size, size_t alignment, const auto& visit) {
    const size_t before = pos_;
    const std::string outer = std::exchange(out_, "");
    const size_t start = pos_ = internal::AlignUp(pos_, alignment);
    visit();
    if (pos_ > start + size) Fail(name, "is smaller than its fields");
    pos_ = before;
    return std::exchange(out_, outer);
  }

  Shared& shared_;
  std::string out_;
  size_t pos_ = 0;
  size_t align_ = 1;
  std::optional<Discriminator> discriminator_;  // the last enum field
};

}  // namespace dafs::wire::wireshark
