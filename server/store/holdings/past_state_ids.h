// The state ids of opens that have ended, as far as their use must not fail with BAD_STATEID.
// Spec: 4.4.1.2 (OLD_STATEID), 4.4.1.5 (EXPIRED).
// A value: its owner guards it. Its memory is bounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "server/store/holdings/open_records.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class PastStateIds {
 public:
  // With more revoked clients or delegations the old ones receive BAD_STATEID instead of EXPIRED.
  static constexpr size_t kRevokedMax = 65536;
  // Number of closed state ids that are remembered, so that their use fails with OLD_STATEID.
  static constexpr size_t kClosedMax = 256;

  void AddClosed(uint64_t serial, OpenOwner owner);
  // The owner of one of the last kClosedMax opens that were closed; otherwise null.
  const OpenOwner* OwnerOfClosed(uint64_t serial) const;

  // All state ids of the client count as revoked from now on, or that of a delegation.
  void Revoke(const wire::ClientId& client_id);
  void RevokeDelegation(uint64_t serial);
  bool IsRevoked(const wire::ClientId& client_id, uint64_t serial) const;

 private:
  struct ClosedOpen {
    uint64_t serial = 0;
    OpenOwner owner;
  };

  std::array<ClosedOpen, kClosedMax> closed_;  // a ring
  size_t next_closed_ = 0;
  absl::flat_hash_set<wire::ClientId> revoked_;
  absl::flat_hash_set<uint64_t> revoked_delegations_;
};

}  // namespace dafs::server
