// Whether a loop has so much to do that CPUs are to wake fast for it (runtime/cpu_latency.h): from
// kTurns turns within kWithin on, until there are fewer in kLook. So nothing is held for a program
// that asks now and then, and nothing for longer than two kLook behind the last request.
// Belongs to the loop's thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "runtime/cpu_latency.h"

namespace dafs::dat {

class BusyHold {
 public:
  static constexpr uint32_t kTurns = 16;  // a request is two or three: it comes, its answer comes
  static constexpr absl::Duration kWithin = absl::Milliseconds(3);
  static constexpr absl::Duration kLook = absl::Milliseconds(5);

  // Null: it never holds. Borrowed.
  explicit BusyHold(CpuLatency* latency) : latency_(latency) {}
  ~BusyHold() { Release(); }
  BusyHold(const BusyHold&) = delete;
  BusyHold& operator=(const BusyHold&) = delete;

  // The loop did something. True: it may be time to hold, see IsBusy.
  bool Turned() { return latency_ != nullptr && ++turns_ % kTurns == 0 && !holds_; }
  // Behind Turned: whether these turns came fast enough.
  bool IsBusy(absl::Time now);
  // Then Look is to be called in kLook.
  void Hold();
  // Whether it goes on; then Look is to be called in kLook again.
  bool Look();
  void Release();
  bool holds() const { return holds_; }

 private:
  CpuLatency* const latency_;
  uint32_t turns_ = 0;
  uint32_t looked_at_ = 0;  // turns_ at the last look
  absl::Time last_ = absl::InfinitePast();
  bool holds_ = false;
};

}  // namespace dafs::dat
