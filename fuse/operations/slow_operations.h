// Operations that take long: the log of slow ones (-o slow=), and those that have no answer yet,
// for dafsctl. Each is reported with its file and its caller. Belongs to one worker's thread. Reads
// /proc; may wait for the log.
#pragma once

#include <cstdint>

#include "client/exchange/report.h"
#include "client/files/files.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "fuse/request/caller_proc.h"
#include "runtime/log/log_budget.h"

namespace dafs::fuse {

class SlowOperations {
 public:
  // Younger operations are not reported as pending: there are always some.
  static constexpr absl::Duration kPendingFrom = absl::Seconds(1);
  static constexpr size_t kMostReported = 100;

  // Both must outlive it.
  SlowOperations(const MountState& state, client::Files& files)
      : state_(state), files_(files), threshold_(state.options.slow) {}
  SlowOperations(const SlowOperations&) = delete;
  SlowOperations& operator=(const SlowOperations&) = delete;

  // Without a threshold these three do nothing. Begin: `call` arrived. Began: it waits, or has
  // ended. End: it has ended, and is logged if it was slow. A wait for a lock never counts as slow.
  void Begin(const Call& call) {
    if (threshold_ > absl::ZeroDuration()) Track(call);
  }
  void Began() {
    if (threshold_ > absl::ZeroDuration()) files_.operation_clock().Began();
  }
  void End(const Call& call) {
    if (threshold_ > absl::ZeroDuration()) Judge(call);
  }

  // Adds the calls that have no answer to the report.
  void Report(const OutstandingCalls& calls, client::WorkerReport& report) const;

 private:
  void Track(const Call& call);
  void Judge(const Call& call);
  client::PendingOperation Describe(const Call& call, absl::Time now) const;

  const MountState& state_;
  client::Files& files_;
  const absl::Duration threshold_;
  const CallerProc proc_;
  LogBudget budget_;
  uint64_t count_ = 0;
};

}  // namespace dafs::fuse
