// Decides whether a part of a listing is read with ACLs, which ls -l requests afterwards and
// find(1) does not. A hint: a lost count costs a request. Thread-safe. Nothing blocks.
#pragma once

#include <atomic>

namespace dafs::fuse {

class ListingAcls {
 public:
  // A program has requested an ACL: the next parts are read with ACLs.
  void Requested() { left_.store(kParts, std::memory_order_relaxed); }
  // Whether the next part is worth reading with ACLs.
  bool wanted() const { return left_.load(std::memory_order_relaxed) > 0; }
  // A part was read with ACLs.
  void CountOne() {
    const int left = left_.load(std::memory_order_relaxed);
    if (left > 0) left_.store(left - 1, std::memory_order_relaxed);
  }

 private:
  static constexpr int kParts = 6;
  // At first, three: as much as ls -l reads before its first request. Publishes nothing.
  std::atomic<int> left_{kParts / 2};
};

}  // namespace dafs::fuse
