#include "server/store/holdings/open_table.h"

#include <atomic>
#include <utility>

#include "absl/synchronization/mutex.h"

namespace dafs::server {

using wire::DafsStatus;

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
  const OpenRecords::Client* const client = records_.FindClient(client_id);
  return client != nullptr && client->serials.size() >= most_of_client_;
}

bool OpenTable::MayOpen(const wire::ClientId& client_id) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  return !IsFull(client_id);
}

void OpenTable::Merge(const OpenRequest& request, Record& record, File& file) {
  record.holdings = request.holdings;
  record.access |= request.access;
  record.deny |= request.deny;
  record.deny_delete |= request.deny_delete;
  record.reclaimed |= request.reclaims;
  if (!request.share_key.has_value()) return;
  record.has_key = true;
  file.share_key = *request.share_key;
}

DafsStatus OpenTable::Open(const OpenRequest& request, ObjectRef object, bool pin,
                           wire::StateId* state_id, Shares* had) {
  const ObjectKey key = object->key();
  OpenOwner owner{request.client_id, request.owner, key, request.is_delegation};
  absl::MutexLock lock(&records_.mutex());
  uint64_t serial = records_.FindSerial(owner);
  const Record before = serial != 0 ? *records_.Find(serial) : Record();
  if (const File* const known = records_.FindFile(key);
      known != nullptr && !request.is_delegation) {
    Holders others = known->holders;
    Count(others, before, -1);
    const DafsStatus status = CheckConflict(*known, others, request);
    if (status != DafsStatus::kOk) return status;
  }
  if (serial == 0 && IsFull(request.client_id)) return DafsStatus::kResource;
  if (had != nullptr) *had = static_cast<const Shares&>(before);
  if (serial == 0) serial = records_.Add(std::move(owner));
  Record& merged = *records_.FindMutable(serial);
  File& file = *records_.FindMutableFile(key);
  Merge(request, merged, file);
  if (pin && file.object == nullptr) file.object = std::move(object);
  Count(file.holders, before, -1);
  Count(file.holders, merged, +1);
  if (before.deny == 0 && merged.deny != 0) ++deniers_;
  Account(merged, +1);
  Account(before, -1);
  if ((merged.access & ~before.access & wire::kShareWrite) != 0) {
    promises_.OpenedToWrite(key, request.client_id);
  }
  *state_id = records_.StateIdOf(serial);
  return DafsStatus::kOk;
}

bool OpenTable::IsReclaimed(const OpenRequest& request, const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  const uint64_t serial = records_.FindSerial(OpenOwner{request.client_id, request.owner, key});
  if (serial == 0) return false;
  const Record& record = *records_.Find(serial);
  return record.reclaimed && (request.access & ~record.access) == 0 &&
         (request.deny & ~record.deny) == 0 && (!request.deny_delete || record.deny_delete) &&
         (!request.share_key.has_value() ||
          (record.has_key && records_.FindFile(key)->share_key == *request.share_key));
}

bool OpenTable::Pin(const ObjectRef& object) {
  absl::MutexLock lock(&records_.mutex());
  File* const file = records_.FindMutableFile(object->key());
  if (file == nullptr) return false;
  if (file->object == nullptr) file->object = object;
  return true;
}

// 4.4.1.2: a state id is old if its lock owner now has another one for the file.
bool OpenTable::IsSuperseded(const wire::ClientId& client_id, uint64_t serial,
                             const ObjectKey& key) const {
  const OpenOwner* const closed = past_.OwnerOfClosed(serial);
  return closed != nullptr && closed->client_id == client_id && closed->key == key &&
         records_.FindSerial(*closed) != 0;
}

DafsStatus OpenTable::FindRecord(const wire::ClientId& client_id, const wire::StateId& state_id,
                                 const ObjectKey& key, uint64_t* serial) const {
  if (const DafsStatus status = records_.CheckInstance(state_id); status != DafsStatus::kOk) {
    return status;
  }
  *serial = OpenRecords::SerialOf(state_id);
  const Record* const record = records_.Find(*serial);
  if (record == nullptr) {
    if (*serial <= records_.last_serial() && past_.IsRevoked(client_id, *serial)) {
      return DafsStatus::kExpired;
    }
    return IsSuperseded(client_id, *serial, key) ? DafsStatus::kOldStateId
                                                 : DafsStatus::kBadStateId;
  }
  return record->client_id == client_id && record->key == key ? DafsStatus::kOk
                                                              : DafsStatus::kBadStateId;
}

DafsStatus OpenTable::Find(const wire::ClientId& client_id, const wire::StateId& state_id,
                           const ObjectKey& key, OpenRights* rights, std::string* owner) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  uint64_t serial = 0;
  if (DafsStatus status = FindRecord(client_id, state_id, key, &serial);
      status != DafsStatus::kOk) {
    return status;
  }
  const Record& record = *records_.Find(serial);
  rights->access = record.access;
  rights->reclaimed = record.reclaimed;
  rights->is_delegation = record.is_delegation;
  if (owner != nullptr) *owner = record.owner;
  rights->object = records_.FindFile(key)->object;
  return DafsStatus::kOk;
}

DafsStatus OpenTable::CheckDenied(const ObjectKey& key, uint32_t access,
                                  const wire::StateId& state_id) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  if (deniers_ == 0) return DafsStatus::kOk;
  const File* const file = records_.FindFile(key);
  if (file == nullptr) return DafsStatus::kOk;
  Holders others = file->holders;
  const Record* const own = records_.Find(OpenRecords::SerialOf(state_id));
  if (own != nullptr && own->key == key) Count(others, *own, -1);
  const bool denied = ((access & wire::kShareRead) && others.deny_read > 0) ||
                      ((access & wire::kShareWrite) && others.deny_write > 0);
  return denied ? DafsStatus::kDenied : DafsStatus::kOk;
}

void OpenTable::CountUse(const wire::StateId& state_id, uint64_t read_bytes,
                         uint64_t written_bytes) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  const Record* const record = records_.Find(OpenRecords::SerialOf(state_id));
  if (record == nullptr) return;
  // They publish nothing but themselves.
  std::atomic_ref(record->read_bytes).fetch_add(read_bytes, std::memory_order_relaxed);
  std::atomic_ref(record->written_bytes).fetch_add(written_bytes, std::memory_order_relaxed);
}

DafsStatus OpenTable::Close(const wire::ClientId& client_id, const wire::StateId& state_id,
                            const ObjectKey& key, Closed* closed) {
  absl::MutexLock lock(&records_.mutex());
  uint64_t serial = 0;
  if (DafsStatus status = FindRecord(client_id, state_id, key, &serial);
      status != DafsStatus::kOk) {
    return status;
  }
  const Record& record = *records_.Find(serial);
  File& file = *records_.FindMutableFile(key);
  Count(file.holders, record, -1);
  Account(record, -1);
  if (record.deny != 0) --deniers_;
  closed->holdings = record.holdings;
  closed->is_delegation = record.is_delegation;
  closed->wrote = (record.access & wire::kShareWrite) != 0;
  closed->last_write = closed->wrote && file.holders.writers == 0;
  closed->owner = record.owner;
  closed->use = {key, record.read_bytes, record.written_bytes};
  closed->object = file.object;
  closed->last_open = file.serials.size() == 1;
  past_.AddClosed(serial, records_.Erase(serial));
  return DafsStatus::kOk;
}

DafsStatus OpenTable::Downgrade(const wire::ClientId& client_id, const wire::StateId& state_id,
                                const ObjectKey& key, uint32_t access, uint32_t deny,
                                std::optional<uint64_t> share_key, ObjectRef* drop_write) {
  absl::MutexLock lock(&records_.mutex());
  uint64_t serial = 0;
  if (DafsStatus status = FindRecord(client_id, state_id, key, &serial);
      status != DafsStatus::kOk) {
    return status;
  }
  Record& record = *records_.FindMutable(serial);
  File& file = *records_.FindMutableFile(key);
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
  absl::MutexLock lock(&records_.mutex());
  const uint64_t serial = records_.FindSerial(OpenOwner{request.client_id, request.owner, key});
  if (serial == 0) return;  // closed meanwhile
  Record& record = *records_.FindMutable(serial);
  Shares left = static_cast<const Shares&>(record);
  left.access &= before.access | ~request.access;
  left.deny &= before.deny | ~request.deny;
  left.deny_delete &= before.deny_delete || !request.deny_delete;
  left.has_key &= before.has_key || !request.share_key.has_value();
  Reduce(record, *records_.FindMutableFile(key), left, drop_write);
}

std::vector<std::pair<wire::StateId, ObjectKey>> OpenTable::OpensOf(
    const wire::ClientId& client_id) const {
  std::vector<std::pair<wire::StateId, ObjectKey>> result;
  absl::ReaderMutexLock lock(&records_.mutex());
  const OpenRecords::Client* const client = records_.FindClient(client_id);
  if (client == nullptr) return result;
  for (const uint64_t serial : client->serials) {
    result.emplace_back(records_.StateIdOf(serial), records_.Find(serial)->key);
  }
  return result;
}

std::vector<OpenTable::Holding> OpenTable::HeldIn(
    absl::FunctionRef<bool(const ObjectKey& key)> wants) const {
  std::vector<Holding> result;
  absl::ReaderMutexLock lock(&records_.mutex());
  for (const auto& [serial, record] : records_.all()) {
    if (!wants(record.key)) continue;
    result.push_back(
        {record.client_id, records_.StateIdOf(serial), record.key, record.is_delegation});
  }
  return result;
}

DafsStatus OpenTable::FindDelegation(const wire::ClientId& client_id, const wire::StateId& state_id,
                                     ObjectKey* key) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  if (const DafsStatus status = records_.CheckInstance(state_id); status != DafsStatus::kOk) {
    return status;
  }
  const uint64_t serial = OpenRecords::SerialOf(state_id);
  if (const Record* const record = records_.Find(serial); record != nullptr) {
    if (!record->is_delegation || record->client_id != client_id) return DafsStatus::kBadStateId;
    *key = record->key;
    return DafsStatus::kOk;
  }
  const OpenOwner* const closed = past_.OwnerOfClosed(serial);
  return closed != nullptr && closed->is_delegation && IsSuperseded(client_id, serial, closed->key)
             ? DafsStatus::kOldStateId
             : DafsStatus::kBadStateId;
}

void OpenTable::ExtendDelegation(const wire::StateId& state_id, uint32_t access) {
  absl::MutexLock lock(&records_.mutex());
  Record* const record = records_.FindMutable(OpenRecords::SerialOf(state_id));
  if (record == nullptr) return;
  if ((access & ~record->access & wire::kShareWrite) != 0) {
    promises_.OpenedToWrite(record->key, record->client_id);
  }
  record->access |= access;
}

void OpenTable::RevokeDelegation(const wire::StateId& state_id) {
  absl::MutexLock lock(&records_.mutex());
  past_.RevokeDelegation(OpenRecords::SerialOf(state_id));
}

OpenTable::Sharing OpenTable::SharingOf(const ObjectKey& key,
                                        const wire::ClientId& client_id) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  const File* const file = records_.FindFile(key);
  if (file == nullptr) return {};
  const Holders& holders = file->holders;
  return {.is_written = holders.writers > 0,
          .is_shared = file->serials.size() > file->delegations &&
                       (file->is_shared || file->first != client_id),
          .is_denied = holders.deny_read > 0 || holders.deny_write > 0 || holders.deny_delete > 0 ||
                       holders.keys > 0};
}

std::vector<wire::ClientId> OpenTable::ExpiredHolders(const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  std::vector<wire::ClientId> holders;
  for (const auto& [client_id, client] : records_.clients()) {
    for (const uint64_t serial : client.serials) {
      const Record& record = *records_.Find(serial);
      if (record.holdings == nullptr || record.holdings->expired == 0) break;
      if (record.key != key) continue;
      holders.push_back(client_id);
      break;
    }
  }
  return holders;
}

void OpenTable::Revoke(const wire::ClientId& client_id) {
  absl::MutexLock lock(&records_.mutex());
  past_.Revoke(client_id);
}

bool OpenTable::IsOpen(const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  return records_.FindFile(key) != nullptr;
}

DafsStatus OpenTable::CheckRemoval(const ObjectKey& key, bool check_open) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  const File* const file = records_.FindFile(key);
  if (file == nullptr) return DafsStatus::kOk;
  const bool is_open = file->serials.size() > file->delegations;
  return (check_open && is_open) || file->holders.deny_delete > 0 ? DafsStatus::kDenyDispConflict
                                                                  : DafsStatus::kOk;
}

ObjectRef OpenTable::FindObject(const ObjectKey& key) const {
  absl::ReaderMutexLock lock(&records_.mutex());
  const File* const file = records_.FindFile(key);
  return file == nullptr ? nullptr : file->object;
}

size_t OpenTable::size() const {
  absl::ReaderMutexLock lock(&records_.mutex());
  return records_.all().size();
}

}  // namespace dafs::server
