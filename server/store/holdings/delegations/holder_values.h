// Asks the holders of write delegations for the attributes of files that they may have changed, for
// a GETATTR of another client. Spec: 6.6.3 (BC_GETATTR).
//
// Without a write delegation that may concern the file, Reported is two atomic reads.
// Thread-safe. Nothing blocks or calls the file system.
#pragma once

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/store/holdings/delegations/delegation.h"
#include "server/store/holdings/delegations/delegation_records.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class HolderValues {
 public:
  // An answer also serves requests within this time.
  static constexpr absl::Duration kAskedFor = absl::Milliseconds(30);

  // `records` outlives this.
  explicit HolderValues(DelegationRecords& records) : records_(records) {}
  HolderValues(const HolderValues&) = delete;
  HolderValues& operator=(const HolderValues&) = delete;

  // `ask`: BC_GETATTR is to be sent. The receiver calls SetReported, also if there is no answer. It
  // is called on the thread of a request, perhaps with a lock of the store held: must not block or
  // call the store. Call before the first delegation.
  void SetAsker(std::function<void(const Delegation&)> ask) { ask_ = std::move(ask); }

  // Values from the holder of a write delegation, for `by`. Asks it at most once in kAskedFor, and
  // returns false if its answer must be awaited: then adds that to *awaited (Delegations::Await),
  // unless that is null.
  bool Reported(const ObjectKey& key, const wire::ClientId& by, absl::Time now,
                AwaitedDelegations* awaited, ReportedValues* values)
      ABSL_LOCKS_EXCLUDED(records_.mutex()) {
    if (records_.writes() == 0 || !records_.MayHave(key)) return true;
    return GetReported(key, by, now, awaited, values);
  }
  // The holder has answered, or will not. Does nothing if it is not asked.
  void SetReported(const wire::StateId& state_id, const ReportedValues& values, absl::Time now)
      ABSL_LOCKS_EXCLUDED(records_.mutex());

 private:
  bool GetReported(const ObjectKey& key, const wire::ClientId& by, absl::Time now,
                   AwaitedDelegations* awaited, ReportedValues* values)
      ABSL_LOCKS_EXCLUDED(records_.mutex());

  DelegationRecords& records_;
  std::function<void(const Delegation&)> ask_ = [](const Delegation&) {};
};

}  // namespace dafs::server
