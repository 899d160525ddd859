// Whether programs ask for the ACLs of what they list, as ls -l does and find(1) does not: then the
// server is asked for them along with the entries. Of all workers: one lists, another is asked.
#pragma once

#include <atomic>

namespace dafs::fuse {

class AclHabit {
 public:
  // Whether to ask for ACLs with the next part of a listing. Counts that it is done.
  bool Expected() {
    int left = left_.load(std::memory_order_relaxed);
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
    }
    return left > 0;
  }
  // A program asks for the ACL of one file after the other in the order of their listing.
  void Asked() {
    if (left_.load(std::memory_order_relaxed) != kMost) {
      left_.store(kMost, std::memory_order_relaxed);
    }
  }

 private:
  // So many parts in vain, and it ends. ls(1) has read some of them before it asks; with the first
  // ones nobody has asked yet.
  static constexpr int kMost = 6;
  static constexpr int kAtFirst = 3;

  std::atomic<int> left_{kAtFirst};  // publishes nothing
};

}  // namespace dafs::fuse
