// Bytes of structures in the records of a mount (fuse/restart/handover_record.h, live_record.h),
// and back. A structure has one list of its fields for both directions, a function template
// `Fields(auto& archive, Is<Structure> auto& m)` that calls `archive(m.first, m.second, ...)`.
//
// RecordReader reads hostile bytes: it never reads past them, nor makes room before it has seen the
// bytes that fill it. Values; nothing blocks.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client/state/records/identity.h"
#include "wire/protocol/lock_ranges.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

template <class T>
struct IsOpaque : std::false_type {};
template <class Tag, size_t N>
struct IsOpaque<wire::Opaque<Tag, N>> : std::true_type {};

// Stored like in memory: both programs run on this machine.
template <class T>
concept Plain = std::integral<T> || std::is_enum_v<T> || IsOpaque<T>::value ||
    std::same_as<T, wire::FileHandle>;

// For Fields: either a structure to be written or one to be filled.
template <class M, class T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

void Fields(auto& a, Is<client::Identity> auto& m) { a(m.uid, m.gid, m.groups); }
void Fields(auto& a, Is<wire::LockRange> auto& m) { a(m.first, m.last, m.write); }

class RecordWriter {
 public:
  void operator()(const auto&... fields) { (Put(fields), ...); }
  std::string Take() { return std::move(out_); }

 private:
  template <Plain T>
  void Put(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Put(const std::string& text) {
    Put(uint64_t{text.size()});
    out_ += text;
  }
  template <class T>
  void Put(const std::vector<T>& list) {
    Put(uint64_t{list.size()});
    for (const T& one : list) Put(one);
  }
  template <class T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value.has_value()) Put(*value);
  }
  template <class T>
  requires(!Plain<T>) void Put(const T& structure) { Fields(*this, structure); }

  std::string out_;
};

// Keeps its first error; after it every field is as its default.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> in) : in_(in) {}
  void operator()(auto&... fields) { (Get(fields), ...); }
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::span<const std::byte> Take(uint64_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      return {};
    }
    const std::span<const std::byte> taken = in_.first(size);
    in_ = in_.subspan(size);
    return taken;
  }
  void Get(bool& value) {
    uint8_t byte = 0;
    Get(byte);
    if (byte > 1) ok_ = false;
    value = ok_ && byte == 1;
  }
  template <Plain T>
  requires(!std::same_as<T, bool>) void Get(T& value) {
    const std::span<const std::byte> bytes = Take(sizeof(value));
    if (ok_) std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(value));
  }
  void Get(std::string& text) {
    uint64_t size = 0;
    Get(size);
    const std::span<const std::byte> bytes = Take(size);
    if (ok_) text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <class T>
  void Get(std::vector<T>& list) {
    uint64_t count = 0;
    Get(count);
    // Each element takes a byte at least, so a wrong count ends at the end of the bytes.
    for (uint64_t i = 0; i < count && ok_; ++i) {
      T one = {};
      Get(one);
      if (ok_) list.push_back(std::move(one));
    }
  }
  template <class T>
  void Get(std::optional<T>& value) {
    bool has = false;
    Get(has);
    if (!has) return;
    T one = {};
    Get(one);
    if (ok_) value = std::move(one);
  }
  template <class T>
  requires(!Plain<T>) void Get(T& structure) { Fields(*this, structure); }

  std::span<const std::byte> in_;
  bool ok_ = true;
};

}  // namespace dafs::fuse
