// Reads the body of a kernel request: structures, names and data, in sequence. Checks every bound.
// Keeps the first error; reads after it return zero or an empty range.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "wire/protocol/limits.h"

namespace dafs::fuse {

class RequestReader {
 public:
  explicit RequestReader(std::span<const std::byte> body) : rest_(body) {}

  template <class T>
  T Take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (Need(sizeof(T))) {
      std::memcpy(&value, rest_.data(), sizeof(T));
      rest_ = rest_.subspan(sizeof(T));
    }
    return value;
  }

  // A name in a directory: ends with NUL, is not empty, has no '/', and has at most 1024 bytes.
  // That is the limit of the protocol; the server checks the limit of the file system.
  std::string_view TakeName() {
    std::string_view name = TakeString();
    if (name.empty() || name.find('/') != name.npos) return Fail();
    if (name.size() > wire::kNameBound.max_bytes) return Fail(ENAMETOOLONG);
    return name;
  }

  // Any string that ends with NUL.
  std::string_view TakeString() {
    const void* end = ok() && !rest_.empty() ? std::memchr(rest_.data(), 0, rest_.size()) : nullptr;
    if (end == nullptr) return Fail();
    size_t size = static_cast<size_t>(static_cast<const std::byte*>(end) - rest_.data());
    std::string_view text(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size + 1);
    return text;
  }

  // The next `size` bytes; empty if there are fewer.
  std::span<const std::byte> TakeBytes(size_t size) {
    if (!Need(size)) return {};
    const std::span<const std::byte> bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }

  std::span<const std::byte> rest() const { return rest_; }
  bool ok() const { return error_ == 0; }
  int error() const { return error_; }  // the errno to answer with if not ok

 private:
  bool Need(size_t bytes) {
    if (!ok() || rest_.size() < bytes) Fail();
    return ok();
  }
  std::string_view Fail(int error = EINVAL) {
    if (error_ == 0) error_ = error;
    return {};
  }

  std::span<const std::byte> rest_;
  int error_ = 0;
};

}  // namespace dafs::fuse
