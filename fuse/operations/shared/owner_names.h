// The names of the owners of OPENs at the server. Each open of the kernel and each owner of record
// locks has its own, because the owner of a lock is the owner of its OPEN. The owner of a request
// of the kernel is always the same: if another program carries the request out again after a kill,
// the server finds its first open.
// Thread-safe. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

class OwnerNames {
 public:
  std::string New() { return NameOf(NewNumber()); }
  uint64_t NewNumber() { return next_.fetch_add(1, std::memory_order_relaxed); }

  static std::string OfRequest(uint64_t unique) {
    return NameOf((unique & ~kUniqueResent) | kOfRequest);
  }
  // The number of that request; 0: it is another owner.
  static uint64_t RequestOf(std::string_view owner) {
    uint64_t number = 0;
    if (owner.size() != sizeof(number)) return 0;
    std::memcpy(&number, owner.data(), sizeof(number));
    return (number & kOfRequest) != 0 ? number & ~kOfRequest : 0;
  }

  // For a restart: the number that NewNumber returns next.
  uint64_t next() const { return next_; }
  void Restore(uint64_t next) { next_ = next; }

 private:
  // Neither a number of NewNumber nor one of the kernel has this bit.
  static constexpr uint64_t kOfRequest = uint64_t{1} << 62;
  static std::string NameOf(uint64_t number) {
    std::string owner(sizeof(number), '\0');
    std::memcpy(owner.data(), &number, sizeof(number));
    return owner;
  }

  std::atomic<uint64_t> next_{1};  // publishes no other data
};

}  // namespace dafs::fuse
