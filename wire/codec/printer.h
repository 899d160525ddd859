// Prints field lists as one line of text for the trace log. Truncates long opaque values and
// arrays, so that a line stays readable whatever the peer sends.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

#include "wire/codec/layout.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/limits.h"

namespace dafs::wire::internal {

class Printer {
 public:
  std::string Take() { return std::move(text_); }

  template <class T>
  void Field(const char* name, const T& value) {
    Label(name);
    if constexpr (OpaqueType<T>) {
      Hex({reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()});
    } else if constexpr (std::is_class_v<T>) {
      Nested([&] { T::Fields(value, *this); });
    } else if constexpr (std::is_enum_v<T>) {
      text_ += std::to_string(static_cast<std::underlying_type_t<T>>(value));
    } else {
      text_ += std::to_string(value);
    }
  }
  void Bool32(const char* name, bool value) { Bool8(name, value); }
  void Bool8(const char* name, bool value) {
    Label(name);
    text_ += value ? "true" : "false";
  }
  void Pad32(const char*) {}
  void Nseconds(const char* name, uint32_t value) { Field(name, value); }
  void Mode(const char* name, uint32_t value) {
    Label(name);
    char octal[16];
    std::snprintf(octal, sizeof octal, "0%o", value);
    text_ += octal;
  }

  void Union(const char*, size_t, size_t, const auto& arm) { arm(); }
  void StatusUnion(const char*, size_t, size_t, const auto& arm) { arm(); }
  void WhenOk(size_t, size_t, const auto& part) { part(); }

  void String(const char* name, std::string_view value, Bound, Presence = Presence::kOptional) {
    Label(name);
    Text(value);
  }
  void Name(const char* name, std::string_view value) { String(name, value, kNameBound); }
  void OpaqueBytes(const char* name, std::string_view value, Bound,
                   Presence = Presence::kOptional) {
    Label(name);
    Hex(value);
  }
  void Path(const char* name, const Pathname& path) { Strings(name, path); }
  void RawPath(const char* name, const Pathname& path) { Strings(name, path); }
  void Fences(const char* name, const std::vector<std::string>& ids) { Strings(name, ids); }

  template <class V>
  void Array(const char* name, const V& values, uint32_t, Presence = Presence::kOptional) {
    Label(name);
    List(values, [&](const auto& value) { Field("", value); });
  }

  template <class A>
  void Attributes(const char* name, const A& attributes) {
    Label(name);
    Nested([&] {
      included_ = attributes.included;
      valid_ = attributes.valid;
      A::Attrs(attributes, *this);
      const uint64_t blank = included_ & ~valid_;
      if (blank != 0) Field("invalid", blank);
    });
  }
  void Attr(uint64_t bit, size_t, size_t, const auto& value) {
    if ((included_ & valid_ & bit) != 0) value();
  }

 private:
  static constexpr size_t kBytesShown = 24;
  static constexpr size_t kElementsShown = 8;

  void Label(const char* name) {
    if (!first_) text_ += ", ";
    first_ = false;
    if (*name != '\0') text_.append(name).append("=");
  }
  void Nested(const auto& body) {
    text_ += '{';
    first_ = true;
    body();
    first_ = false;
    text_ += '}';
  }
  void List(const auto& values, const auto& print) {
    text_ += '[';
    first_ = true;
    size_t shown = 0;
    for (const auto& value : values) {
      if (shown++ == kElementsShown) {
        Label("");
        text_ += "... " + std::to_string(values.size());
        break;
      }
      print(value);
    }
    first_ = false;
    text_ += ']';
  }
  void Strings(const char* name, const std::vector<std::string>& strings) {
    Label(name);
    List(strings, [&](const std::string& s) {
      Label("");
      Text(s);
    });
  }
  // Prints printable ASCII unchanged and all other bytes as \xHH, because names are untrusted.
  void Text(std::string_view value) {
    text_ += '"';
    for (size_t i = 0; i < value.size() && i < 64; ++i) {
      const auto c = static_cast<unsigned char>(value[i]);
      if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
        text_ += value[i];
      } else {
        text_ += "\\x";
        HexByte(c);
      }
    }
    text_ += value.size() > 64 ? "...\"" : "\"";
  }
  void Hex(std::string_view value) {
    // Omit trailing zeros.
    size_t size = value.size();
    while (size > 1 && value[size - 1] == '\0') --size;
    for (size_t i = 0; i < size && i < kBytesShown; ++i) {
      HexByte(static_cast<unsigned char>(value[i]));
    }
    if (size > kBytesShown) text_ += "...";
  }
  void HexByte(unsigned char c) {
    constexpr char kDigits[] = "0123456789abcdef";
    text_ += kDigits[c >> 4];
    text_ += kDigits[c & 15];
  }

  std::string text_;
  bool first_ = true;
  uint64_t included_ = 0;
  uint64_t valid_ = 0;
};

}  // namespace dafs::wire::internal
