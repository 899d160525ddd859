// Packets between a program and its helper process: numbers in the order of this machine and fields
// with a length in front, in a fixed order. A reader bounds each field before it copies it.
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace dafs::auth {

class PacketWriter {
 public:
  template <class T>
  PacketWriter& Number(T number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return *this;
  }
  PacketWriter& Field(std::string_view field) {
    Number(static_cast<uint32_t>(field.size()));
    bytes_.append(field);
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the first error, and for what is missing, it returns zeros and empty fields.
class PacketReader {
 public:
  explicit PacketReader(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T Number() {
    T number = 0;
    if (!is_ok_ || left_.size() < sizeof(number)) {
      is_ok_ = false;
      return 0;
    }
    std::memcpy(&number, left_.data(), sizeof(number));
    left_.remove_prefix(sizeof(number));
    return number;
  }
  std::string Field(size_t most) {
    const auto size = Number<uint32_t>();
    if (!is_ok_ || size > most || size > left_.size()) {
      is_ok_ = false;
      return "";
    }
    std::string field(left_.substr(0, size));
    left_.remove_prefix(size);
    return field;
  }
  // Whether `count` numbers of type T are left; otherwise it is an error.
  template <class T>
  bool HasNumbers(size_t count) {
    is_ok_ = is_ok_ && count <= left_.size() / sizeof(T);
    return is_ok_;
  }
  // Whether the packet was read without an error and to its end.
  bool AtEnd() const { return is_ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool is_ok_ = true;
};

// `text` for a log: each byte that is not printable ASCII is '?'.
inline std::string Printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace dafs::auth
