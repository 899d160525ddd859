// XDR, as far as RPC and RPC-over-RDMA headers need it. Spec: RFC 4506, sections 4.1 to 4.19.
// Encoder and decoder take the same calls, so that one list of fields describes both directions.
// Values; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace dafs::rpcrdma {

using Bytes = std::vector<std::byte>;

// GCC 12 reports the insertion of a range at the end as an overflow.
inline void Append(Bytes& out, std::span<const std::byte> more) {
  const size_t at = out.size();
  out.resize(at + more.size());
  std::copy(more.begin(), more.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
}

constexpr size_t XdrPadded(size_t size) { return (size + 3) & ~size_t{3}; }

// Appends to `out`, which outlives it. Cannot fail.
class XdrEncoder {
 public:
  static constexpr bool kDecodes = false;
  explicit XdrEncoder(Bytes& out) : out_(out) {}

  void operator()(const auto&... fields) { (Field(fields), ...); }

  void Field(uint32_t value) { Put(__builtin_bswap32(value)); }
  void Field(uint64_t value) { Put(__builtin_bswap64(value)); }
  void Field(std::span<const std::byte> opaque) {
    Field(static_cast<uint32_t>(opaque.size()));
    Append(out_, opaque);
    out_.resize(XdrPadded(out_.size()));
  }
  template <class T>
  requires std::is_enum_v<T>
  void Field(T value) { Field(static_cast<uint32_t>(value)); }

 private:
  template <class T>
  void Put(T value) {
    Append(out_, std::as_bytes(std::span(&value, 1)));
  }
  Bytes& out_;
};

// Reads from `in`, which outlives it. Keeps its first error, and reads zeros after it. Allocates no
// more than a small multiple of what remains of `in`.
class XdrDecoder {
 public:
  static constexpr bool kDecodes = true;
  explicit XdrDecoder(std::span<const std::byte> in) : in_(in) {}

  void operator()(auto&... fields) { (Field(fields), ...); }

  void Field(uint32_t& value) { value = __builtin_bswap32(Take<uint32_t>()); }
  void Field(uint64_t& value) { value = __builtin_bswap64(Take<uint64_t>()); }
  void Field(Bytes& opaque) {
    uint32_t size = 0;
    Field(size);
    if (XdrPadded(size) > remaining()) Fail();
    if (!ok_) return;
    opaque.assign(in_.begin() + static_cast<std::ptrdiff_t>(at_),
                  in_.begin() + static_cast<std::ptrdiff_t>(at_ + size));
    at_ += XdrPadded(size);
  }
  // The caller checks the value.
  template <class T>
  requires std::is_enum_v<T>
  void Field(T& value) {
    uint32_t number = 0;
    Field(number);
    value = static_cast<T>(number);
  }

  // Passes over `size` bytes, or fails.
  void Skip(size_t size) {
    if (size > remaining()) Fail();
    if (ok_) at_ += size;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  size_t position() const { return at_; }
  size_t remaining() const { return in_.size() - at_; }

 private:
  template <class T>
  T Take() {
    T value = 0;
    if (sizeof(T) > remaining()) Fail();
    if (!ok_) return 0;
    std::memcpy(&value, in_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::span<const std::byte> in_;
  size_t at_ = 0;
  bool ok_ = true;
};

// An array with its count (RFC 4506, 4.13). `each` codes one element of at least `least` bytes.
template <class T>
void XdrArray(auto& xdr, T& array, size_t least, const auto& each) {
  uint32_t count = static_cast<uint32_t>(array.size());
  xdr(count);
  if constexpr (std::remove_reference_t<decltype(xdr)>::kDecodes) {
    if (count > xdr.remaining() / least) xdr.Fail();
    if (!xdr.ok()) return;
    array.resize(count);
  }
  for (auto& element : array) each(element);
}

// A linked list (RFC 4506, 4.19): each element follows a word that is 1, and 0 ends it. It cannot
// be longer than the message.
template <class T>
void XdrList(auto& xdr, T& list, const auto& each) {
  if constexpr (std::remove_reference_t<decltype(xdr)>::kDecodes) {
    while (true) {
      uint32_t more = 0;
      xdr(more);
      if (more > 1) xdr.Fail();
      if (!xdr.ok() || more == 0) return;
      each(list.emplace_back());
    }
  } else {
    for (auto& element : list) {
      xdr(uint32_t{1});
      each(element);
    }
    xdr(uint32_t{0});
  }
}

template <class T>
void XdrOptional(auto& xdr, T& optional, const auto& each) {
  if constexpr (std::remove_reference_t<decltype(xdr)>::kDecodes) {
    uint32_t there = 0;
    xdr(there);
    if (there > 1) xdr.Fail();
    if (xdr.ok() && there == 1) each(optional.emplace());
  } else {
    xdr(uint32_t{optional.has_value()});
    if (optional.has_value()) each(*optional);
  }
}

}  // namespace dafs::rpcrdma
