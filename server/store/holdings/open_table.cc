#include "server/store/holdings/open_table.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace dafs::server {

using wire::DafsStatus;

wire::StateId OpenTable::StateIdOf(uint64_t serial) const {
  return wire::OpaqueFromUint64<wire::StateId>(uint64_t{instance_} << kSerialBits | serial);
}

void OpenTable::Count(Holders& holders, const Record& record, int sign) {
  if (record.is_delegation) return;
  const auto add = [sign](uint32_t& count, bool holds) {
    if (holds) count = static_cast<uint32_t>(static_cast<int64_t>(count) + sign);
  };
  add(holders.readers, record.access & wire::kShareRead);
  add(holders.writers, record.access & wire::kShareWrite);
  add(holders.deny_read, record.deny & wire::kShareRead);
  add(holders.deny_write, record.deny & wire::kShareWrite);
  add(holders.deny_delete, record.deny_delete);
  add(holders.keys, record.has_key);
}

uint64_t OpenTable::SerialOf(const wire::StateId& state_id) {
  return wire::OpaqueToUint64(state_id) & ((uint64_t{1} << kSerialBits) - 1);
}

// Updates the client's counts for a later instance of the server. A change of an open adds the new
// shares before it subtracts the old ones, so that a count is never too low if the server ends in
// between.
void OpenTable::Account(const Record& record, int sign) {
  if (record.holdings == nullptr) return;
  const auto by = static_cast<uint32_t>(sign);
  record.holdings->opens += by;
  if (record.deny != 0 || record.deny_delete || record.has_key) record.holdings->deniers += by;
}

// Checks access and deny first, then the share key (4.4.2). `others` leaves out the open that the
// request would be merged into. For the share key that open counts too: a file keeps its key until
// every open with it is closed.
DafsStatus OpenTable::CheckConflict(const File& file, const Holders& others,
                                    const OpenRequest& request) {
  if (((request.access & wire::kShareRead) && others.deny_read > 0) ||
      ((request.access & wire::kShareWrite) && others.deny_write > 0) ||
      ((request.deny & wire::kShareRead) && others.readers > 0) ||
      ((request.deny & wire::kShareWrite) && others.writers > 0)) {
    return DafsStatus::kDenied;
  }
  if (request.share_key.has_value() && file.holders.keys > 0 &&
      *request.share_key != file.share_key) {
    return DafsStatus::kKeyMismatch;
  }
  return DafsStatus::kOk;
}

bool OpenTable::IsFull(const wire::ClientId& client_id) const {
  const auto held = by_client_.find(client_id);
  return held != by_client_.end() && held->second.size() >= most_of_client_;
}

bool OpenTable::MayOpen(const wire::ClientId& client_id) const {
  absl::ReaderMutexLock lock(&mutex_);
  return !IsFull(client_id);
}

DafsStatus OpenTable::Open(const OpenRequest& request, ObjectRef object, bool pin,
                           wire::StateId* state_id, Shares* had) {
  const ObjectKey key = object->key();
  Owner owner{request.client_id, request.owner, key, request.is_delegation};
  absl::MutexLock lock(&mutex_);
  File& file = files_[key];
  const auto existing = by_owner_.find(owner);
  Record merged;
  Holders others = file.holders;
  if (existing != by_owner_.end()) {
    merged = records_[existing->second];
    Count(others, merged, -1);
  }
  DafsStatus status =
      request.is_delegation ? DafsStatus::kOk : CheckConflict(file, others, request);
  if (status == DafsStatus::kOk && existing == by_owner_.end() && IsFull(request.client_id)) {
    status = DafsStatus::kResource;
  }
  if (status != DafsStatus::kOk) {
    if (file.serials.empty()) files_.erase(key);
    return status;
  }
  const Record before = merged;
  if (had != nullptr) *had = static_cast<const Shares&>(before);
  const bool denied_before = merged.deny != 0;
  merged.client_id = request.client_id;
  merged.owner = request.owner;
  merged.key = key;
  merged.holdings = request.holdings;
  merged.is_delegation = request.is_delegation;
  merged.access |= request.access;
  merged.deny |= request.deny;
  merged.deny_delete |= request.deny_delete;
  merged.reclaimed |= request.reclaims;
  if (request.share_key.has_value()) {
    merged.has_key = true;
    file.share_key = *request.share_key;
  }
  uint64_t serial = 0;
  if (existing != by_owner_.end()) {
    serial = existing->second;
  } else {
    serial = ++last_serial_;
    by_owner_[std::move(owner)] = serial;
    by_client_[request.client_id].insert(serial);
    if (file.serials.size() == file.delegations && !request.is_delegation) {
      file.first = request.client_id;
      file.is_shared = false;
    }
    file.serials.push_back(serial);
    if (request.is_delegation) ++file.delegations;
  }
  if (!request.is_delegation && file.first != request.client_id) file.is_shared = true;
  if (pin && file.object == nullptr) file.object = std::move(object);
  file.holders = others;
  Count(file.holders, merged, +1);
  if (!denied_before && merged.deny != 0) ++deniers_;
  Account(merged, +1);
  Account(before, -1);
  if ((merged.access & ~before.access & wire::kShareWrite) != 0) {
    promises_.OpenedToWrite(key, request.client_id);
  }
  records_[serial] = std::move(merged);
  *state_id = StateIdOf(serial);
  return DafsStatus::kOk;
}

bool OpenTable::IsReclaimed(const OpenRequest& request, const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto open = by_owner_.find(Owner{request.client_id, request.owner, key});
  if (open == by_owner_.end()) return false;
  const Record& record = records_.find(open->second)->second;
  return record.reclaimed && (request.access & ~record.access) == 0 &&
         (request.deny & ~record.deny) == 0 && (!request.deny_delete || record.deny_delete) &&
         (!request.share_key.has_value() ||
          (record.has_key && files_.find(key)->second.share_key == *request.share_key));
}

bool OpenTable::Pin(const ObjectRef& object) {
  absl::MutexLock lock(&mutex_);
  auto it = files_.find(object->key());
  if (it == files_.end()) return false;
  if (it->second.object == nullptr) it->second.object = object;
  return true;
}

// 4.4.1.2: a state id is old if its lock owner now has another one for the file.
bool OpenTable::IsSuperseded(const wire::ClientId& client_id, uint64_t serial,
                             const ObjectKey& key) const {
  for (const ClosedOpen& closed : closed_) {
    if (closed.serial != serial) continue;
    return closed.owner.client_id == client_id && closed.owner.key == key &&
           by_owner_.contains(closed.owner);
  }
  return false;
}

DafsStatus OpenTable::CheckInstance(const wire::StateId& state_id) const {
  if (state_id.is_zero()) return DafsStatus::kBadStateId;  // no state (R64)
  const uint64_t value = wire::OpaqueToUint64(state_id);
  if (value >> kSerialBits > instance_) return DafsStatus::kBadStateId;
  return value >> kSerialBits == instance_ ? DafsStatus::kOk : DafsStatus::kStaleStateId;
}

DafsStatus OpenTable::FindRecord(const wire::ClientId& client_id, const wire::StateId& state_id,
                                 const ObjectKey& key, uint64_t* serial) const {
  if (const DafsStatus status = CheckInstance(state_id); status != DafsStatus::kOk) return status;
  *serial = SerialOf(state_id);
  auto it = records_.find(*serial);
  if (it == records_.end() && *serial <= last_serial_ &&
      (revoked_.contains(client_id) || revoked_delegations_.contains(*serial))) {
    return DafsStatus::kExpired;
  }
  if (it == records_.end() && IsSuperseded(client_id, *serial, key)) {
    return DafsStatus::kOldStateId;
  }
  if (it == records_.end() || it->second.client_id != client_id || it->second.key != key) {
    return DafsStatus::kBadStateId;
  }
  return DafsStatus::kOk;
}

DafsStatus OpenTable::Find(const wire::ClientId& client_id, const wire::StateId& state_id,
                           const ObjectKey& key, OpenRights* rights, std::string* owner) const {
  absl::ReaderMutexLock lock(&mutex_);
  uint64_t serial = 0;
  if (DafsStatus status = FindRecord(client_id, state_id, key, &serial);
      status != DafsStatus::kOk) {
    return status;
  }
  const Record& record = records_.find(serial)->second;
  rights->access = record.access;
  rights->reclaimed = record.reclaimed;
  rights->is_delegation = record.is_delegation;
  if (owner != nullptr) *owner = record.owner;
  rights->object = files_.find(key)->second.object;
  return DafsStatus::kOk;
}

DafsStatus OpenTable::CheckDenied(const ObjectKey& key, uint32_t access,
                                  const wire::StateId& state_id) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (deniers_ == 0) return DafsStatus::kOk;
  auto it = files_.find(key);
  if (it == files_.end()) return DafsStatus::kOk;
  Holders others = it->second.holders;
  const auto own = records_.find(SerialOf(state_id));
  if (own != records_.end() && own->second.key == key) Count(others, own->second, -1);
  const bool denied = ((access & wire::kShareRead) && others.deny_read > 0) ||
                      ((access & wire::kShareWrite) && others.deny_write > 0);
  return denied ? DafsStatus::kDenied : DafsStatus::kOk;
}

void OpenTable::CountUse(const wire::StateId& state_id, uint64_t read_bytes,
                         uint64_t written_bytes) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto record = records_.find(SerialOf(state_id));
  if (record == records_.end()) return;
  // They publish nothing but themselves.
  std::atomic_ref(record->second.read_bytes).fetch_add(read_bytes, std::memory_order_relaxed);
  std::atomic_ref(record->second.written_bytes).fetch_add(written_bytes, std::memory_order_relaxed);
}

DafsStatus OpenTable::Close(const wire::ClientId& client_id, const wire::StateId& state_id,
                            const ObjectKey& key, Closed* closed) {
  absl::MutexLock lock(&mutex_);
  uint64_t serial = 0;
  if (DafsStatus status = FindRecord(client_id, state_id, key, &serial);
      status != DafsStatus::kOk) {
    return status;
  }
  auto record = records_.find(serial);
  auto file = files_.find(key);
  Count(file->second.holders, record->second, -1);
  closed->holdings = record->second.holdings;
  Account(record->second, -1);
  if (record->second.deny != 0) --deniers_;
  closed->is_delegation = record->second.is_delegation;
  if (closed->is_delegation) --file->second.delegations;
  closed->wrote = (record->second.access & wire::kShareWrite) != 0;
  closed->last_write = closed->wrote && file->second.holders.writers == 0;
  ClosedOpen& remembered = closed_[next_closed_++ % kClosedMax];
  remembered = {serial, Owner{client_id, record->second.owner, key, closed->is_delegation}};
  by_owner_.erase(remembered.owner);
  closed->owner = std::move(record->second.owner);
  closed->use = {key, record->second.read_bytes, record->second.written_bytes};
  auto client = by_client_.find(client_id);
  client->second.erase(serial);
  if (client->second.empty()) {
    by_client_.erase(client);
    doubtful_.erase(client_id);
  }
  records_.erase(record);
  closed->object = file->second.object;
  auto& serials = file->second.serials;
  serials.erase(std::find(serials.begin(), serials.end(), serial));
  closed->last_open = serials.empty();
  if (closed->last_open) files_.erase(file);
  return DafsStatus::kOk;
}

DafsStatus OpenTable::Downgrade(const wire::ClientId& client_id, const wire::StateId& state_id,
                                const ObjectKey& key, uint32_t access, uint32_t deny,
                                std::optional<uint64_t> share_key, ObjectRef* drop_write) {
  absl::MutexLock lock(&mutex_);
  uint64_t serial = 0;
  if (DafsStatus status = FindRecord(client_id, state_id, key, &serial);
      status != DafsStatus::kOk) {
    return status;
  }
  Record& record = records_.find(serial)->second;
  File& file = files_.find(key)->second;
  if ((access & ~record.access) != 0 || (deny & ~record.deny) != 0) return DafsStatus::kInval;
  if (share_key.has_value() && (!record.has_key || *share_key != file.share_key)) {
    return DafsStatus::kInval;
  }
  Reduce(record, file, {access, deny, record.deny_delete, share_key.has_value()}, drop_write);
  return DafsStatus::kOk;
}

void OpenTable::Reduce(Record& record, File& file, const Shares& shares, ObjectRef* drop_write) {
  Count(file.holders, record, -1);
  const Record before = record;
  if (record.deny != 0 && shares.deny == 0) --deniers_;
  static_cast<Shares&>(record) = shares;
  Count(file.holders, record, +1);
  Account(record, +1);
  Account(before, -1);
  if ((before.access & ~record.access & wire::kShareWrite) != 0) {
    promises_.ClosedToWrite(record.key, record.client_id);
  }
  if (file.holders.writers == 0) *drop_write = file.object;
}

// Shares that other requests of the same owner have added meanwhile stay.
void OpenTable::TakeBack(const OpenRequest& request, const Shares& before, const ObjectKey& key,
                         ObjectRef* drop_write) {
  absl::MutexLock lock(&mutex_);
  const auto open = by_owner_.find(Owner{request.client_id, request.owner, key});
  if (open == by_owner_.end()) return;  // closed meanwhile
  Record& record = records_.find(open->second)->second;
  Shares left = static_cast<const Shares&>(record);
  left.access &= before.access | ~request.access;
  left.deny &= before.deny | ~request.deny;
  left.deny_delete &= before.deny_delete || !request.deny_delete;
  left.has_key &= before.has_key || !request.share_key.has_value();
  Reduce(record, files_.find(key)->second, left, drop_write);
}

std::vector<std::pair<wire::StateId, ObjectKey>> OpenTable::OpensOf(
    const wire::ClientId& client_id) const {
  std::vector<std::pair<wire::StateId, ObjectKey>> result;
  absl::ReaderMutexLock lock(&mutex_);
  auto client = by_client_.find(client_id);
  if (client == by_client_.end()) return result;
  for (uint64_t serial : client->second) {
    result.emplace_back(StateIdOf(serial), records_.find(serial)->second.key);
  }
  return result;
}

std::vector<OpenTable::Holding> OpenTable::HeldIn(
    absl::FunctionRef<bool(const ObjectKey& key)> wants) const {
  std::vector<Holding> result;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [serial, record] : records_) {
    if (!wants(record.key)) continue;
    result.push_back({record.client_id, StateIdOf(serial), record.key, record.is_delegation});
  }
  return result;
}

DafsStatus OpenTable::FindDelegation(const wire::ClientId& client_id, const wire::StateId& state_id,
                                     ObjectKey* key) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (const DafsStatus status = CheckInstance(state_id); status != DafsStatus::kOk) return status;
  const uint64_t serial = SerialOf(state_id);
  if (const auto it = records_.find(serial); it != records_.end()) {
    if (!it->second.is_delegation || it->second.client_id != client_id) {
      return DafsStatus::kBadStateId;
    }
    *key = it->second.key;
    return DafsStatus::kOk;
  }
  for (const ClosedOpen& closed : closed_) {
    if (closed.serial != serial || !closed.owner.is_delegation) continue;
    if (IsSuperseded(client_id, serial, closed.owner.key)) return DafsStatus::kOldStateId;
  }
  return DafsStatus::kBadStateId;
}

void OpenTable::ExtendDelegation(const wire::StateId& state_id, uint32_t access) {
  absl::MutexLock lock(&mutex_);
  const auto it = records_.find(SerialOf(state_id));
  if (it == records_.end()) return;
  Record& record = it->second;
  if ((access & ~record.access & wire::kShareWrite) != 0) {
    promises_.OpenedToWrite(record.key, record.client_id);
  }
  record.access |= access;
}

void OpenTable::RevokeDelegation(const wire::StateId& state_id) {
  absl::MutexLock lock(&mutex_);
  if (revoked_delegations_.size() >= kRevokedMax) revoked_delegations_.clear();
  revoked_delegations_.insert(SerialOf(state_id));
}

OpenTable::Sharing OpenTable::SharingOf(const ObjectKey& key,
                                        const wire::ClientId& client_id) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto it = files_.find(key);
  if (it == files_.end()) return {};
  const File& file = it->second;
  const Holders& holders = file.holders;
  return {.is_written = holders.writers > 0,
          .is_shared =
              file.serials.size() > file.delegations && (file.is_shared || file.first != client_id),
          .is_denied = holders.deny_read > 0 || holders.deny_write > 0 || holders.deny_delete > 0 ||
                       holders.keys > 0};
}

std::vector<wire::ClientId> OpenTable::ExpiredHolders(const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<wire::ClientId> holders;
  for (const auto& [client_id, serials] : by_client_) {
    for (uint64_t serial : serials) {
      const Record& record = records_.find(serial)->second;
      if (record.holdings == nullptr || record.holdings->expired == 0) break;
      if (record.key != key) continue;
      holders.push_back(client_id);
      break;
    }
  }
  return holders;
}

void OpenTable::Revoke(const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  if (revoked_.size() >= kRevokedMax) revoked_.clear();
  revoked_.insert(client_id);
}

bool OpenTable::IsOpen(const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&mutex_);
  return files_.contains(key);
}

DafsStatus OpenTable::CheckRemoval(const ObjectKey& key, bool check_open) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = files_.find(key);
  if (it == files_.end()) return DafsStatus::kOk;
  const bool is_open = it->second.serials.size() > it->second.delegations;
  return (check_open && is_open) || it->second.holders.deny_delete > 0
             ? DafsStatus::kDenyDispConflict
             : DafsStatus::kOk;
}

ObjectRef OpenTable::FindObject(const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = files_.find(key);
  return it == files_.end() ? nullptr : it->second.object;
}

size_t OpenTable::size() const {
  absl::ReaderMutexLock lock(&mutex_);
  return records_.size();
}

}  // namespace dafs::server
