// The completions of one endpoint that Poll has not returned yet, and the number of posts that have
// not been reported yet. That number bounds the queue. Not thread-safe.
#pragma once

#include <span>
#include <utility>

#include "wire/dat/dat.h"
#include "wire/dat/iwarp/ring.h"

namespace dafs::dat::iwarp {

class CompletionQueue {
 public:
  CompletionQueue(uint32_t max_sends, uint32_t max_receives, uint32_t max_windows)
      : max_sends_(max_sends),
        max_receives_(max_receives),
        // + kConnected and kDisconnected
        ring_(size_t{max_sends} + max_receives + max_windows + 2) {}

  bool HasRoomForSend() const { return sends_ < max_sends_; }
  bool HasRoomForReceive() const { return receives_ < max_receives_; }
  void CountSend() { ++sends_; }
  void CountReceive() { ++receives_; }
  // Windows that have ended, and whose end Poll has not reported yet.
  uint32_t invalidations() const { return invalidations_; }
  void CountInvalidation() { ++invalidations_; }
  // A send or RDMA write without a requested completion is done.
  void ForgetSend() { --sends_; }

  void Push(Completion completion) {
    if (completion.event == Event::kReceive) ++receives_made_;
    ring_.push_back(std::move(completion));
  }
  bool empty() const { return ring_.empty(); }
  size_t size() const { return ring_.size(); }
  // The number of receives that have ever completed. A caller compares two values to detect
  // progress.
  uint64_t receives_made() const { return receives_made_; }

  // Moves as many completions to `out` as fit, and returns their number.
  size_t Drain(std::span<Completion> out) {
    size_t count = 0;
    for (; count < out.size() && !ring_.empty(); ++count) {
      out[count] = ring_.pop_front();
      switch (out[count].event) {
        case Event::kReceive:
          --receives_;
          break;
        case Event::kSend:
        case Event::kRdmaWrite:
        case Event::kRdmaRead:
          --sends_;
          break;
        case Event::kInvalidated:
          --invalidations_;
          break;
        case Event::kConnected:
        case Event::kDisconnected:
          break;
      }
    }
    return count;
  }

 private:
  const uint32_t max_sends_;
  const uint32_t max_receives_;
  uint32_t sends_ = 0;     // posted sends and RDMA operations not reported yet
  uint32_t receives_ = 0;  // posted receives not reported yet
  uint32_t invalidations_ = 0;
  uint64_t receives_made_ = 0;
  Ring<Completion> ring_;
};

}  // namespace dafs::dat::iwarp
