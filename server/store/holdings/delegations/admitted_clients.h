// The clients that know delegations, and may be granted some.
// Thread-safe. Nothing blocks. Mostly one atomic read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/hash/hash.h"
#include "server/store/holdings/delegations/delegation_records.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class AdmittedClients {
 public:
  // `records` outlives this.
  explicit AdmittedClients(DelegationRecords& records) : records_(records) {}
  AdmittedClients(const AdmittedClients&) = delete;
  AdmittedClients& operator=(const AdmittedClients&) = delete;

  // The client knows delegations, and may be granted some from now on: it has sent a request that
  // is about them. `name`: its client_id_string.
  void Admit(const wire::ClientId& client_id, std::string_view name)
      ABSL_LOCKS_EXCLUDED(records_.mutex());
  bool IsAdmitted(const wire::ClientId& client_id) const ABSL_LOCKS_EXCLUDED(records_.mutex());
  // The client is gone. Its delegations have been removed, except those that await a claim.
  void Forget(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(records_.mutex());

 private:
  std::atomic<uint64_t>& PlaceOf(const wire::ClientId& client_id) {
    return places_[absl::HashOf(client_id) % places_.size()];
  }
  const std::atomic<uint64_t>& PlaceOf(const wire::ClientId& client_id) const {
    return places_[absl::HashOf(client_id) % places_.size()];
  }

  DelegationRecords& records_;
  // An admitted client by hash of its id: saves most callers of Admit and IsAdmitted the mutex.
  // Publishes nothing but itself.
  std::array<std::atomic<uint64_t>, 1024> places_{};
};

}  // namespace dafs::server
