// Predicts whether programs request the ACLs of the files that they list, as ls -l does and find(1)
// does not. If so, the server is sent one request for the ACLs and the entries. All workers share
// one object: one worker lists, and another receives the requests for ACLs.
#pragma once

#include <atomic>

namespace dafs::fuse {

class AclHabit {
 public:
  // Whether to request ACLs with the next part of a listing. Counts the part if so.
  bool Expected() {
    int left = left_.load(std::memory_order_relaxed);
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
    }
    return left > 0;
  }
  // A program requests the ACLs of files one after another, in the order of their listing.
  void Asked() {
    if (left_.load(std::memory_order_relaxed) != kMost) {
      left_.store(kMost, std::memory_order_relaxed);
    }
  }

 private:
  // After this many parts with ACLs, and no request for an ACL meanwhile, parts are listed without
  // ACLs. It is more than one, because ls(1) reads some parts before its first request. kAtFirst is
  // the number until a program has requested any ACL.
  static constexpr int kMost = 6;
  static constexpr int kAtFirst = 3;

  std::atomic<int> left_{kAtFirst};  // publishes nothing
};

}  // namespace dafs::fuse
