#include "fuse/restart/live_client.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/state/opens.h"
#include "fuse/cache/record/live_kinds.h"
#include "fuse/cache/record/record_bytes.h"

namespace dafs::fuse {
namespace {

LiveRecord::Slot PutBytes(LiveRecord& record, LiveKind kind, uint64_t key, RecordWriter& writer,
                          LiveRecord::Slot before) {
  const std::string bytes = writer.Take();
  return record.Put(static_cast<uint8_t>(kind), key, std::as_bytes(std::span(bytes)), 0, before);
}

uint64_t KeyOf(const wire::CredHandle& handle) {
  uint32_t number = 0;
  std::memcpy(&number, handle.bytes.data(), sizeof(number));
  return number;
}

// The body of kept data. Its size is the count.
struct KeptBody {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t place = 0;  // LiveRecord::PlaceOf
  wire::Verifier verifier;
};

// Reads `fields` in the order in which they were written.
template <class... T>
bool Take(const LiveRecord::Item& item, T&... fields) {
  RecordReader reader(item.body);
  reader(fields...);
  return reader.ok() && reader.at_end();
}

void ReadSession(const LiveRecord::Item& item, HandoverRecord& record) {
  HandoverRecord::Session session;
  if (Take(item, session.session_id, session.auth)) record.sessions.push_back(session);
}

void ReadOpen(const LiveRecord::Item& item, HandoverRecord& record) {
  HandoverRecord::Open open;
  open.name = wire::OpaqueFromUint64<wire::StateId>(item.key);
  if (Take(item, open.handle, open.owner, open.share_access, open.share_deny, open.executes,
           open.user, open.state_id, open.client_id, open.lost, open.lost_why, open.is_local,
           open.closing)) {
    record.opens.push_back(std::move(open));
  }
}

void ReadLocks(const LiveRecord::Item& item, HandoverRecord& record) {
  HandoverRecord::Lock lock;
  lock.open = wire::OpaqueFromUint64<wire::StateId>(item.key);
  if (Take(item, lock.file, lock.process, lock.ranges, lock.is_local)) {
    record.locks.push_back(std::move(lock));
  }
}

void ReadCredential(const LiveRecord::Item& item, HandoverRecord& record) {
  HandoverRecord::Credential credential;
  wire::ClientId client_id;
  if (!Take(item, client_id, credential.user, credential.handle)) return;
  // Those of an earlier client id are of no use; only a kill in the midst leaves two.
  if (client_id != record.credentials_of) record.credentials.clear();
  record.credentials_of = client_id;
  record.credentials.push_back(std::move(credential));
}

void ReadDelegation(const LiveRecord::Item& item, HandoverRecord& record) {
  HandoverRecord::Delegation delegation;
  if (Take(item, delegation.file, delegation.state_id, delegation.client_id, delegation.user,
           delegation.was_write)) {
    record.delegations.push_back(std::move(delegation));
  }
}

void ReadKeptFile(const LiveRecord::Item& item, HandoverRecord& record) {
  HandoverRecord::KeptFile file;
  file.number = item.key;
  if (Take(item, file.file, file.user, file.open)) record.kept_files.push_back(std::move(file));
}

void ReadKept(const LiveRecord::Item& item, HandoverRecord& record) {
  KeptBody body;
  if (item.body.size() != sizeof(body)) return;
  std::memcpy(&body, item.body.data(), sizeof(body));
  record.kept.push_back({body.file, body.offset, item.count, body.place, body.verifier});
}

}  // namespace

LiveRecord::Slot LiveClient::PutSession(const LiveSession& session) {
  RecordWriter writer;
  writer(session.session_id, static_cast<uint32_t>(session.auth));
  return PutBytes(record_, LiveKind::kSession, record_.NewKey(), writer, 0);
}

LiveRecord::Slot LiveClient::PutOpen(const Open& open, Slot before) {
  const client::OpenInfo& info = open.info;
  const absl::string_view why = open.lost.message();
  RecordWriter writer;
  writer(info.handle, info.owner, info.share_access, info.share_deny, info.executes, info.user,
         open.state_id, open.client_id, static_cast<uint32_t>(open.lost.code()),
         std::string(why.data(), why.size()), open.is_local, open.closing);
  return PutBytes(record_, LiveKind::kOpen, wire::OpaqueToUint64(open.name), writer, before);
}

LiveRecord::Slot LiveClient::PutLocks(const HeldLocks& locks, Slot before) {
  RecordWriter writer;
  writer(locks.file, locks.process,
         std::vector<wire::LockRange>(locks.ranges.begin(), locks.ranges.end()), locks.is_local);
  return PutBytes(record_, LiveKind::kLocks, wire::OpaqueToUint64(locks.open), writer, before);
}

LiveRecord::Slot LiveClient::PutCredential(const wire::ClientId& client_id,
                                           const client::Identity& user,
                                           const wire::CredHandle& handle) {
  RecordWriter writer;
  writer(client_id, user, handle);
  return PutBytes(record_, LiveKind::kCredential, KeyOf(handle), writer, 0);
}

LiveRecord::Slot LiveClient::PutDelegation(const HeldDelegation& delegation, Slot before) {
  RecordWriter writer;
  writer(delegation.file, delegation.state_id, delegation.client_id, delegation.user,
         delegation.was_write);
  return PutBytes(record_, LiveKind::kDelegation, delegation.number, writer, before);
}

LiveRecord::Slot LiveClient::PutKeptFile(const KeptFile& kept, Slot before) {
  RecordWriter writer;
  writer(kept.file, kept.user, kept.open);
  return PutBytes(record_, LiveKind::kKeptFile, kept.number, writer, before);
}

LiveRecord::Slot LiveClient::PutKept(const Kept& kept, Slot before) {
  const std::optional<uint64_t> place = record_.PlaceOf(kept.data);
  if (!place.has_value()) {
    record_.Drop(before);
    return 0;
  }
  const KeptBody body = {
      .file = kept.file, .offset = kept.offset, .place = *place, .verifier = kept.verifier};
  return record_.Put(static_cast<uint8_t>(LiveKind::kKept),
                     before != 0 ? record_.KeyOf(before) : record_.NewKey(),
                     std::as_bytes(std::span(&body, 1)), kept.data.size(), before);
}

void LiveClient::Read(std::span<const LiveRecord::Item> items, HandoverRecord& record) {
  for (const LiveRecord::Item& item : items) {
    switch (static_cast<LiveKind>(item.kind)) {
      case LiveKind::kSession:
        ReadSession(item, record);
        break;
      case LiveKind::kOpen:
        ReadOpen(item, record);
        break;
      case LiveKind::kLocks:
        ReadLocks(item, record);
        break;
      case LiveKind::kCredential:
        ReadCredential(item, record);
        break;
      case LiveKind::kDelegation:
        ReadDelegation(item, record);
        break;
      case LiveKind::kKeptFile:
        ReadKeptFile(item, record);
        break;
      case LiveKind::kKept:
        ReadKept(item, record);
        break;
      default:
        break;
    }
  }
}

}  // namespace dafs::fuse
