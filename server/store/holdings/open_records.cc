#include "server/store/holdings/open_records.h"

#include <algorithm>

namespace dafs::server {

using wire::DafsStatus;

namespace {

// The value for `key` in a map; null if there is none.
template <class Map, class Key>
auto* FindIn(Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

wire::StateId OpenRecords::StateIdOf(uint64_t serial) const {
  return wire::OpaqueFromUint64<wire::StateId>(uint64_t{instance_} << kSerialBits | serial);
}

uint64_t OpenRecords::SerialOf(const wire::StateId& state_id) {
  return wire::OpaqueToUint64(state_id) & ((uint64_t{1} << kSerialBits) - 1);
}

DafsStatus OpenRecords::CheckInstance(const wire::StateId& state_id) const {
  if (state_id.is_zero()) return DafsStatus::kBadStateId;  // no state (R64)
  const uint64_t value = wire::OpaqueToUint64(state_id);
  if (value >> kSerialBits > instance_) return DafsStatus::kBadStateId;
  return value >> kSerialBits == instance_ ? DafsStatus::kOk : DafsStatus::kStaleStateId;
}

const OpenRecords::Record* OpenRecords::Find(uint64_t serial) const {
  return FindIn(records_, serial);
}

OpenRecords::Record* OpenRecords::FindMutable(uint64_t serial) { return FindIn(records_, serial); }

uint64_t OpenRecords::FindSerial(const OpenOwner& owner) const {
  const uint64_t* const serial = FindIn(by_owner_, owner);
  return serial == nullptr ? 0 : *serial;
}

const OpenRecords::File* OpenRecords::FindFile(const ObjectKey& key) const {
  return FindIn(files_, key);
}

OpenRecords::File* OpenRecords::FindMutableFile(const ObjectKey& key) {
  return FindIn(files_, key);
}

const OpenRecords::Client* OpenRecords::FindClient(const wire::ClientId& client_id) const {
  return FindIn(clients_, client_id);
}

OpenRecords::Client* OpenRecords::FindMutableClient(const wire::ClientId& client_id) {
  return FindIn(clients_, client_id);
}

uint64_t OpenRecords::Add(OpenOwner owner) {
  const uint64_t serial = ++last_serial_;
  clients_[owner.client_id].serials.insert(serial);
  Record& record = records_[serial];
  record.client_id = owner.client_id;
  record.owner = owner.owner;
  record.key = owner.key;
  record.is_delegation = owner.is_delegation;
  File& file = files_[owner.key];
  if (owner.is_delegation) {
    ++file.delegations;
  } else if (file.serials.size() == file.delegations) {
    file.first = owner.client_id;
    file.is_shared = false;
  } else if (file.first != owner.client_id) {
    file.is_shared = true;
  }
  file.serials.push_back(serial);
  by_owner_[std::move(owner)] = serial;
  return serial;
}

OpenOwner OpenRecords::Erase(uint64_t serial) {
  const auto record = records_.find(serial);
  OpenOwner owner{record->second.client_id, std::move(record->second.owner), record->second.key,
                  record->second.is_delegation};
  records_.erase(record);
  by_owner_.erase(owner);
  const auto client = clients_.find(owner.client_id);
  client->second.serials.erase(serial);
  if (client->second.serials.empty()) clients_.erase(client);
  const auto file = files_.find(owner.key);
  if (owner.is_delegation) --file->second.delegations;
  auto& serials = file->second.serials;
  serials.erase(std::find(serials.begin(), serials.end(), serial));
  if (serials.empty()) files_.erase(file);
  return owner;
}

}  // namespace dafs::server
