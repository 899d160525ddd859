// The time limit for RDMA operations that wait for the peer. They hold memory that other sessions
// need, so a session ends if none of them completes for too long.
// Belongs to the session's thread. Costs no timer per operation.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"

namespace dafs::server {

class TransferWatch {
 public:
  // Calls `stalled` with the number of outstanding operations if none completes for `limit`, or up
  // to twice that. `loop` outlives this.
  TransferWatch(Loop& loop, absl::Duration limit,
                absl::AnyInvocable<void(uint32_t outstanding)> stalled);
  ~TransferWatch() { Stop(); }
  TransferWatch(const TransferWatch&) = delete;
  TransferWatch& operator=(const TransferWatch&) = delete;

  // `count` more operations wait for the peer. Those of a response complete when its send does.
  void Begin(uint32_t count);
  void Complete(uint32_t count);
  // The transport has ended: nothing is reported any more.
  void Stop();

 private:
  void SetTimer();

  Loop& loop_;
  const absl::Duration limit_;
  absl::AnyInvocable<void(uint32_t)> stalled_;
  bool stopped_ = false;
  uint32_t outstanding_ = 0;
  uint64_t progress_ = 0;  // changes whenever one completes
  uint64_t watched_ = 0;   // progress_ when timer_ was set
  Loop::TimerId timer_ = 0;
};

}  // namespace dafs::server
