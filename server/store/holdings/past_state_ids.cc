#include "server/store/holdings/past_state_ids.h"

#include <utility>

namespace dafs::server {

void PastStateIds::AddClosed(uint64_t serial, OpenOwner owner) {
  closed_[next_closed_++ % kClosedMax] = {serial, std::move(owner)};
}

const OpenOwner* PastStateIds::OwnerOfClosed(uint64_t serial) const {
  for (const ClosedOpen& closed : closed_) {
    if (closed.serial == serial) return &closed.owner;
  }
  return nullptr;
}

void PastStateIds::Revoke(const wire::ClientId& client_id) {
  if (revoked_.size() >= kRevokedMax) revoked_.clear();
  revoked_.insert(client_id);
}

void PastStateIds::RevokeDelegation(uint64_t serial) {
  if (revoked_delegations_.size() >= kRevokedMax) revoked_delegations_.clear();
  revoked_delegations_.insert(serial);
}

bool PastStateIds::IsRevoked(const wire::ClientId& client_id, uint64_t serial) const {
  return revoked_.contains(client_id) || revoked_delegations_.contains(serial);
}

}  // namespace dafs::server
