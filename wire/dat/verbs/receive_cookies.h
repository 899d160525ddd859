// The cookies of the receives that the device holds, in the order posted. Allocates only when it is
// constructed. Not thread-safe; nothing blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dafs::dat::verbs {

class ReceiveCookies {
 public:
  explicit ReceiveCookies(uint32_t most) : cookies_(std::max(most, 1u)) {}

  size_t capacity() const { return cookies_.size(); }
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == cookies_.size(); }
  // The number of receives that were ever posted.
  uint64_t posted() const { return tail_; }
  // Not if full().
  void Push(uint64_t cookie) { cookies_[tail_++ % cookies_.size()] = cookie; }
  // The device fills receives in the order posted. Not if empty().
  uint64_t Pop() { return cookies_[head_++ % cookies_.size()]; }

 private:
  std::vector<uint64_t> cookies_;  // ring: posted from head_ to tail_
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace dafs::dat::verbs
