// Field lists (Fields, Attrs) to JSON and back, in the form of the golden vectors: the same lists
// that drive the codec, so that a vector's names are checked too. Tests only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "wire/codec/layout.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/limits.h"
#include "wire/protocol/name_check.h"

namespace dafs::wire::testing {

using Json = nlohmann::json;

inline std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return hex;
}
inline std::string Hex(std::span<const std::byte> bytes) {
  return Hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}
inline std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}
inline std::vector<std::byte> BytesFromHex(const std::string& hex) {
  const std::string s = FromHex(hex);
  const auto* at = reinterpret_cast<const std::byte*>(s.data());
  return {at, at + s.size()};
}

// Returns a decoded value in the form of the vectors.
class JsonWriter {
 public:
  explicit JsonWriter(DafsStatus status = DafsStatus::kOk) : status_(status) {}
  Json Take() { return std::move(json_); }

  template <class T>
  void Field(const char* name, const T& value) {
    json_[name] = Value(value);
  }
  void Bool32(const char* name, bool value) { json_[name] = value; }
  void Bool8(const char* name, bool value) { json_[name] = value; }
  void Pad32(const char* name) { json_[name] = 0; }
  void Nseconds(const char* name, uint32_t value) { json_[name] = value; }
  void Mode(const char* name, uint32_t value) { json_[name] = value; }
  void Union(const char* name, size_t, size_t, const auto& arm) {
    Json outer = std::exchange(json_, Json::object());
    arm();
    outer[name] = std::move(json_);
    json_ = std::move(outer);
  }
  void StatusUnion(const char* name, size_t size, size_t align, const auto& arm) {
    Union(name, size, align, [&] {
      if (internal::IsLockConflict(status_)) arm();
    });
  }
  void WhenOk(size_t, size_t, const auto& part) { part(); }
  void String(const char* name, const std::string& value, Bound, Presence = {}) {
    json_[name] = Text(value);
  }
  void OpaqueBytes(const char* name, const std::string& value, Bound, Presence = {}) {
    json_[name] = Hex(value);
  }
  void Name(const char* name, const std::string& value) { json_[name] = Text(value); }
  void Path(const char* name, const std::vector<std::string>& strings) {
    Json list = Json::array();
    for (const std::string& s : strings) list.push_back(Text(s));
    json_[name] = std::move(list);
  }
  void RawPath(const char* name, const std::vector<std::string>& s) { Path(name, s); }
  void Fences(const char* name, const std::vector<std::string>& s) { Path(name, s); }
  template <class V>
  void Array(const char* name, const V& values, uint32_t, Presence = {}) {
    Json list = Json::array();
    for (const auto& value : values) list.push_back(Value(value));
    json_[name] = std::move(list);
  }
  template <class A>
  void Attributes(const char* name, const A& attributes) {
    json_[name] = AttributesValue(attributes);
  }
  template <class A>
  Json AttributesValue(const A& attributes) {
    JsonWriter inner(status_);
    inner.valid_ = attributes.valid;
    A::Attrs(attributes, inner);
    return {
        {"included", attributes.included}, {"valid", attributes.valid}, {"values", inner.Take()}};
  }
  void Attr(uint64_t bit, size_t, size_t, const auto& value) {
    if ((valid_ & bit) != 0) value();
  }
  template <class T>
  Json Value(const T& value) {
    if constexpr (internal::OpaqueType<T>) {
      return Hex(
          std::string_view(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()));
    } else if constexpr (std::is_class_v<T>) {
      JsonWriter inner(status_);
      T::Fields(value, inner);
      return inner.Take();
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<uint32_t>(value);
    } else {
      return value;
    }
  }

 private:
  static Json Text(const std::string& value) {
    return IsUtf8(value) ? Json(value) : Json{{"hex", Hex(value)}};
  }

  DafsStatus status_;
  Json json_ = Json::object();
  uint64_t valid_ = 0;
};

// Returns the struct to encode from a vector's value. A name that the vector lacks throws, so the
// test fails.
class JsonReader {
 public:
  JsonReader(const Json& json, DafsStatus status) : json_(&json), status_(status) {}

  template <class T>
  void Field(const char* name, T& value) {
    Read(json_->at(name), value);
  }
  void Bool32(const char* name, bool& value) { value = json_->at(name).get<bool>(); }
  void Bool8(const char* name, bool& value) { Bool32(name, value); }
  void Pad32(const char*) {}
  void Nseconds(const char* name, uint32_t& value) { Field(name, value); }
  void Mode(const char* name, uint32_t& value) { Field(name, value); }
  void Union(const char* name, size_t, size_t, const auto& arm) {
    const Json* outer = std::exchange(json_, &json_->at(name));
    arm();
    json_ = outer;
  }
  void StatusUnion(const char* name, size_t size, size_t align, const auto& arm) {
    Union(name, size, align, [&] {
      if (internal::IsLockConflict(status_)) arm();
    });
  }
  void WhenOk(size_t, size_t, const auto& part) { part(); }
  void String(const char* name, std::string& value, Bound, Presence = {}) {
    value = Text(json_->at(name));
  }
  void OpaqueBytes(const char* name, std::string& value, Bound, Presence = {}) {
    value = FromHex(json_->at(name).get<std::string>());
  }
  void Name(const char* name, std::string& value) { value = Text(json_->at(name)); }
  void Path(const char* name, std::vector<std::string>& strings) {
    strings.clear();
    for (const Json& s : json_->at(name)) strings.push_back(Text(s));
  }
  void RawPath(const char* name, std::vector<std::string>& s) { Path(name, s); }
  void Fences(const char* name, std::vector<std::string>& s) { Path(name, s); }
  template <class V>
  void Array(const char* name, V& values, uint32_t, Presence = {}) {
    values.clear();
    for (const Json& element : json_->at(name)) Read(element, values.emplace_back());
  }
  template <class A>
  void Attributes(const char* name, A& attributes) {
    AttributesFrom(json_->at(name), attributes);
  }
  template <class A>
  void AttributesFrom(const Json& json, A& attributes) {
    attributes.included = json.at("included").get<uint64_t>();
    attributes.valid = json.at("valid").get<uint64_t>();
    JsonReader inner(json.at("values"), status_);
    inner.valid_ = attributes.valid;
    A::Attrs(attributes, inner);
  }
  void Attr(uint64_t bit, size_t, size_t, const auto& value) {
    if ((valid_ & bit) != 0) value();
  }
  static std::string Text(const Json& json) {
    return json.is_object() ? FromHex(json.at("hex").get<std::string>()) : json.get<std::string>();
  }
  template <class T>
  void Read(const Json& json, T& value) {
    if constexpr (internal::OpaqueType<T>) {
      const std::string bytes = FromHex(json.get<std::string>());
      if (bytes.size() != value.bytes.size()) throw std::length_error("opaque of wrong size");
      std::memcpy(value.bytes.data(), bytes.data(), bytes.size());
    } else if constexpr (std::is_class_v<T>) {
      JsonReader inner(json, status_);
      T::Fields(value, inner);
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(json.get<std::underlying_type_t<T>>());
    } else {
      value = json.get<T>();
    }
  }

 private:
  const Json* json_;
  DafsStatus status_;
  uint64_t valid_ = 0;
};

}  // namespace dafs::wire::testing
