// The write delegations of a client that has started again: its later instance may claim them for a
// while (CLAIM_DELEGATE_PREV). Until then they conflict with requests of other clients, as others
// do. Spec: 6.5.10 (DELEGPURGE), 6.5.24. Thread-safe. Nothing blocks or calls the file system.
#pragma once

#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/store/holdings/delegations/delegation_records.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class DelegationClaims {
 public:
  // `records` outlives this.
  explicit DelegationClaims(DelegationRecords& records) : records_(records) {}
  DelegationClaims(const DelegationClaims&) = delete;
  DelegationClaims& operator=(const DelegationClaims&) = delete;

  // `to` is a later instance of the client `from`: until `until` it may claim its write
  // delegations. `name`: its client_id_string. Call before the opens of `from` are closed.
  void Supersede(const wire::ClientId& from, const wire::ClientId& to, std::string_view name,
                 absl::Time until) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Whether the client's earlier instance had a delegation of the file, that may still be claimed.
  bool MayClaim(const ObjectKey& key, const wire::ClientId& client_id, absl::Time now) const
      ABSL_LOCKS_EXCLUDED(records_.mutex());

  // Each of these ends claims, and calls what waits for that, without a lock.

  // The client has claimed it.
  void Claimed(const ObjectKey& key, const wire::ClientId& client_id)
      ABSL_LOCKS_EXCLUDED(records_.mutex());
  // DELEGPURGE: the client claims no more.
  void Purge(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Ends one. Returns false if it awaits no claim.
  bool End(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Ends those for which no claim has come in time. Call regularly.
  void EndOverdue(absl::Time now) ABSL_LOCKS_EXCLUDED(records_.mutex());

 private:
  using Record = DelegationRecords::Record;

  Record* Find(const ObjectKey& key, const wire::ClientId& client_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(records_.mutex());
  void EndWhere(absl::FunctionRef<bool(const Record&)> is_over)
      ABSL_LOCKS_EXCLUDED(records_.mutex());

  DelegationRecords& records_;
};

}  // namespace dafs::server
