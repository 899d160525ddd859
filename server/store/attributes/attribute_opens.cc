#include "server/store/attributes/attribute_opens.h"

#include <utility>

namespace dafs::server {

using wire::DafsStatus;

DafsStatus AttributeOpens::Add(AttributeOpen open, wire::StateId* state_id) {
  absl::MutexLock lock(&mutex_);
  size_t of_client = 0;
  uint64_t serial = 0;
  for (const auto& [number, other] : opens_) {
    if (other.client_id != open.client_id) continue;
    ++of_client;
    if (other.key == open.key && other.owner == open.owner) serial = number;
  }
  if (serial == 0) {
    if (of_client >= kMostOfClient || opens_.size() >= kMost) return DafsStatus::kResource;
    serial = ++last_serial_;
  }
  opens_[serial] = std::move(open);
  *state_id = wire::OpaqueFromUint64<wire::StateId>(uint64_t{instance_} << kSerialBits | serial);
  return DafsStatus::kOk;
}

DafsStatus AttributeOpens::Find(const wire::ClientId& client_id, const wire::StateId& state_id,
                                const ObjectKey& key, Table::iterator* found) {
  if (state_id.is_zero()) return DafsStatus::kBadStateId;  // no state (R64)
  const uint64_t value = wire::OpaqueToUint64(state_id);
  if (value >> kSerialBits > instance_) return DafsStatus::kBadStateId;
  if (value >> kSerialBits != instance_) return DafsStatus::kStaleStateId;
  *found = opens_.find(value & ((uint64_t{1} << kSerialBits) - 1));
  if (*found == opens_.end() || (*found)->second.client_id != client_id ||
      (*found)->second.key != key) {
    return DafsStatus::kBadStateId;
  }
  return DafsStatus::kOk;
}

DafsStatus AttributeOpens::With(const wire::ClientId& client_id, const wire::StateId& state_id,
                                const ObjectKey& key,
                                absl::FunctionRef<DafsStatus(AttributeOpen&)> use) {
  absl::MutexLock lock(&mutex_);
  Table::iterator it;
  if (DafsStatus status = Find(client_id, state_id, key, &it); status != DafsStatus::kOk) {
    return status;
  }
  return use(it->second);
}

std::optional<size_t> AttributeOpens::SizeOf(const wire::ClientId& client_id,
                                             const ObjectKey& key) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [number, open] : opens_) {
    if (open.client_id == client_id && open.key == key) return open.value.size();
  }
  return std::nullopt;
}

DafsStatus AttributeOpens::Take(const wire::ClientId& client_id, const wire::StateId& state_id,
                                const ObjectKey& key, AttributeOpen* open) {
  absl::MutexLock lock(&mutex_);
  Table::iterator it;
  if (DafsStatus status = Find(client_id, state_id, key, &it); status != DafsStatus::kOk) {
    return status;
  }
  *open = std::move(it->second);
  opens_.erase(it);
  return DafsStatus::kOk;
}

void AttributeOpens::ReleaseClient(const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  absl::erase_if(opens_, [&](const auto& entry) { return entry.second.client_id == client_id; });
}

std::string AttributeNames::Find(const NameHash& hash) {
  absl::MutexLock lock(&mutex_);
  auto it = names_.find(hash);
  return it == names_.end() ? std::string() : it->second;
}

void AttributeNames::Insert(const NameHash& hash, const std::string& name) {
  absl::MutexLock lock(&mutex_);
  if (names_.size() >= kMost) names_.clear();  // a listing finds them again
  names_[hash] = name;
}

}  // namespace dafs::server
