// Decides when a loop is busy enough to request low CPU wake-up latency
// (runtime/loop/cpu_latency.h). The request starts when kTurns turns happen within kWithin. It ends
// when fewer than kTurns turns happen within kLook. A program with occasional requests therefore
// never starts it, and it ends at most two kLook after the last request. Belongs to the loop's
// thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "runtime/loop/cpu_latency.h"

namespace dafs {

class CpuLatencyRequest {
 public:
  static constexpr uint32_t kTurns = 16;  // a request takes two or three turns
  static constexpr absl::Duration kWithin = absl::Milliseconds(3);
  static constexpr absl::Duration kLook = absl::Milliseconds(5);

  // Null: CpuLatencyRequest never requests low latency. Borrowed.
  explicit CpuLatencyRequest(CpuLatency* latency) : latency_(latency) {}
  ~CpuLatencyRequest() { Release(); }
  CpuLatencyRequest(const CpuLatencyRequest&) = delete;
  CpuLatencyRequest& operator=(const CpuLatencyRequest&) = delete;

  // Counts a turn in which the loop did work. Returns true if the caller should check IsBusy now.
  bool Turned() { return latency_ != nullptr && ++turns_ % kTurns == 0 && !holds_; }
  // Returns whether the last kTurns turns were fast enough. Call after Turned returned true.
  bool IsBusy(absl::Time now);
  // Starts the request. Call Look after kLook.
  void Hold();
  // Returns whether the request continues. If true, call Look again after kLook.
  bool Look();
  void Release();
  bool holds() const { return holds_; }

 private:
  CpuLatency* const latency_;
  uint32_t turns_ = 0;
  uint32_t looked_at_ = 0;  // turns_ at the last call of Look
  absl::Time last_ = absl::InfinitePast();
  bool holds_ = false;
};

}  // namespace dafs
