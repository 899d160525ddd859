#include "server/store/holdings/delegations/admitted_clients.h"

#include "absl/synchronization/mutex.h"

namespace dafs::server {

void AdmittedClients::Admit(const wire::ClientId& client_id, std::string_view name) {
  const uint64_t id = wire::OpaqueToUint64(client_id);
  std::atomic<uint64_t>& place = PlaceOf(client_id);
  if (place.load(std::memory_order_relaxed) == id) return;
  absl::MutexLock lock(&records_.mutex());
  DelegationRecords::Client& client = records_.FindOrAddClient(client_id);
  client.is_admitted = true;
  client.name = name;
  place.store(id, std::memory_order_relaxed);
}

bool AdmittedClients::IsAdmitted(const wire::ClientId& client_id) const {
  if (PlaceOf(client_id).load(std::memory_order_relaxed) == wire::OpaqueToUint64(client_id)) {
    return true;
  }
  absl::MutexLock lock(&records_.mutex());
  const DelegationRecords::Client* const client = records_.FindClient(client_id);
  return client != nullptr && client->is_admitted;
}

void AdmittedClients::Forget(const wire::ClientId& client_id) {
  absl::MutexLock lock(&records_.mutex());
  DelegationRecords::Client* const client = records_.FindClient(client_id);
  if (client == nullptr) return;
  std::atomic<uint64_t>& place = PlaceOf(client_id);
  if (place.load(std::memory_order_relaxed) == wire::OpaqueToUint64(client_id)) {
    place.store(0, std::memory_order_relaxed);
  }
  client->is_admitted = false;
  records_.EraseUnused(client_id);
}

}  // namespace dafs::server
