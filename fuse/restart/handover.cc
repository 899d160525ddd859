#include "fuse/restart/handover.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "fuse/cache/live_nodes.h"
#include "fuse/files/live_files.h"
#include "fuse/operations/shared/server_opens.h"
#include "fuse/restart/live_client.h"
#include "fuse/restart/named_place.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::fuse {
namespace {

// A process gives fewer numbers of one kind than this.
constexpr uint64_t kMostNumbers = uint64_t{1} << 40;
// A file's CHANGE is never this, so its pages are dropped when its CHANGE is known.
constexpr uint64_t kUnknownChange = ~uint64_t{0};

// ---- Save --------------------------------------------------------------------------------------

void SaveOpens(client::Client& client, HandoverRecord& record) {
  client::Opens::Saved saved = client.opens().Save();
  record.last_open = saved.last_name;
  for (auto& [name, entry] : saved.entries) {
    HandoverRecord::Open& open = record.opens.emplace_back();
    open.name = name;
    open.handle = entry.info->handle;
    open.owner = entry.info->owner;
    open.share_access = entry.info->share_access;
    open.share_deny = entry.info->share_deny;
    open.executes = entry.info->executes;
    open.user = entry.info->user;
    open.state_id = entry.state_id;
    open.client_id = entry.client_id;
    open.lost = static_cast<uint32_t>(entry.lost.code());
    const auto why = entry.lost.message();
    open.lost_why.assign(why.data(), why.size());
    open.closing = entry.closing;
    open.is_local = entry.is_local;
  }
}

void SaveClientBasis(client::Client& client, HandoverRecord& record) {
  const client::ClientOptions& options = client.options();
  record.client_id_string = options.client_id_string;
  for (const dat::Address& address : client.paths().ReachableAddresses()) {
    record.addresses.emplace_back(reinterpret_cast<const char*>(address.get()), address.size());
  }
  record.root_handles = client.root().Save();
  const client::Limits& limits = client.limits();
  record.max_read = limits.max_read;
  record.max_write = limits.max_write;
  record.max_append = limits.max_append;
  record.lease_seconds = limits.lease_seconds;
  record.squashed = limits.squashed;
  record.squashed_in_part = limits.squashed_in_part;
  record.last_activity_ns = absl::ToUnixNanos(client.last_activity());
}

void SaveClient(client::Client& client, HandoverRecord& record) {
  SaveClientBasis(client, record);
  record.verifier = client.options().client_verifier;
  SaveOpens(client, record);
  for (const client::LockOwner& owner : client.locks().Owners()) {
    record.locks.push_back({owner.file, owner.state_id, owner.process,
                            client.locks().HeldBy(owner.file, owner.state_id), false});
  }
  for (client::Credentials::Entry& entry : client.credentials().Save(&record.credentials_of)) {
    record.credentials.push_back({std::move(entry.user), entry.handle});
  }
}

void SaveMountBasis(const MountState& state, HandoverRecord& record) {
  record.place = PlaceText(state.options);
  record.default_permissions = state.kernel.default_permissions;
  record.init_flags = state.kernel.init.flags();
  record.next_owner = state.owners.next();
  record.next_file = state.open_files.next();
  record.next_directory = state.open_directories.next();
}

// ---- Restore -----------------------------------------------------------------------------------

}  // namespace

absl::Status Contradiction(std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the record of the mount contradicts itself: ", Text(what)));
}

namespace {

absl::Status RestoreOpens(const HandoverRecord& record, client::Client& client) {
  client::Opens::Saved saved;
  saved.last_name = record.last_open;
  for (const HandoverRecord::Open& open : record.opens) {
    client::OpenInfo info;
    info.handle = open.handle;
    info.owner = open.owner;
    info.share_access = open.share_access;
    info.share_deny = open.share_deny;
    info.executes = open.executes;
    info.user = open.user;
    client::Opens::Entry entry;
    entry.info = std::make_shared<const client::OpenInfo>(std::move(info));
    entry.state_id = open.state_id;
    entry.client_id = open.client_id;
    entry.closing = open.closing;
    entry.is_local = open.is_local;
    if (open.lost != 0) {
      entry.lost = absl::Status(static_cast<absl::StatusCode>(open.lost), open.lost_why);
    }
    saved.entries.emplace_back(open.name, std::move(entry));
  }
  return client.opens().Restore(std::move(saved)) ? absl::OkStatus() : Contradiction("opens");
}

void RestoreDelegations(const HandoverRecord& record, client::Client& client) {
  absl::flat_hash_map<wire::StateId, std::vector<wire::StateId>> opens;
  for (const HandoverRecord::Open& open : record.opens) {
    if (open.is_local) opens[open.state_id].push_back(open.name);
  }
  for (const HandoverRecord::Delegation& delegation : record.delegations) {
    client.delegations().Restore({.file = delegation.file,
                                  .state_id = delegation.state_id,
                                  .client_id = delegation.client_id,
                                  .user = delegation.user,
                                  .was_write = delegation.was_write,
                                  .opens = std::move(opens[delegation.state_id])});
  }
}

absl::Status RestoreClient(const HandoverRecord& record, client::Client& client) {
  for (const HandoverRecord::Session& session : record.sessions) {
    client.sessions().AddLeft({session.session_id, static_cast<wire::AuthType>(session.auth)});
  }
  client.root().Restore(record.root_handles);
  client::Limits& limits = client.limits();
  limits.max_read = record.max_read;
  limits.max_write = record.max_write;
  limits.max_append = record.max_append;
  limits.lease_seconds = record.lease_seconds;
  limits.squashed = record.squashed;
  limits.squashed_in_part = record.squashed_in_part;
  // If the lease has run out since, the first answer shows it.
  const absl::Time heard = absl::FromUnixNanos(record.last_activity_ns);
  client.NoteActivity(heard, heard);
  RETURN_IF_ERROR(RestoreOpens(record, client));
  for (const HandoverRecord::Lock& lock : record.locks) {
    for (const wire::LockRange& range : lock.ranges) {
      if (range.first > range.last) return Contradiction("locks");
    }
    client.locks().Restore({lock.file, lock.open, lock.process}, lock.ranges, lock.is_local);
  }
  RestoreDelegations(record, client);
  const auto most = static_cast<uint32_t>(record.credentials.size());
  for (auto one = record.credentials.rbegin(); one != record.credentials.rend(); ++one) {
    client.credentials().Insert(record.credentials_of, one->user, one->handle, most);
  }
  return absl::OkStatus();
}

absl::Status RestoreFiles(const HandoverRecord& record, MountState& state) {
  state.open_files.SetNext(record.next_file);
  for (const HandoverRecord::File& file : record.files) {
    auto open = std::make_shared<OpenState>();
    open->nodeid = file.nodeid;
    open->handle = file.handle;
    open->state_id = file.state_id;
    open->flags = file.flags;
    open->change = file.change;
    open->opener = std::make_shared<const client::Identity>(file.opener);
    open->by_own_right = file.by_own_right;
    open->writes = state.caches.write_trackers.Of(file.nodeid);
    open->owner_changes = open->writes->owner_changes() + (file.owner_changed ? 1 : 0);
    open->errors = open->writes->SampleErrors();
    if ((file.flags & O_DIRECT) != 0) open->direct.emplace(open->writes);
    open->opened_by = file.opened_by;
    open->bypasses_before = state.caches.pages.BeginOpen(file.nodeid, BypassesPages(file.flags));
    if (file.opened_by != 0) state.left.opens.AddFile(file.opened_by, file.fh);
    state.live_files.Put(file.fh, *open);
    if (!state.open_files.Restore(file.fh, std::move(open))) return Contradiction("open files");
  }
  // After all cursors into these errors were made.
  for (const HandoverRecord::File& file : record.files) {
    if (!file.has_lost_data) continue;
    const auto writes = state.caches.write_trackers.Of(file.nodeid);
    writes->NoteFailure(absl::DataLossError("a write of a killed mount.dafs had failed"));
  }
  return absl::OkStatus();
}

std::shared_ptr<const DirectoryChunk> KnownHere(const HandoverRecord::Directory& directory) {
  auto chunk = std::make_shared<DirectoryChunk>();
  chunk->attributes = chunk->eof = chunk->known_here = true;
  chunk->asked_at = absl::InfinitePast();
  for (const SavedEntry& saved : directory.known_here) {
    DirectoryChunk::Entry& entry = chunk->entries.emplace_back();
    entry.cookie = saved.cookie;
    entry.name = saved.name;
    entry.attributes.set(wire::kFattrFileId | wire::kFattrObjectType | wire::kFattrFilehandle);
    entry.attributes.filehandle = saved.handle;
    entry.attributes.object_type = static_cast<wire::ObjectType>(saved.type);
    entry.attributes.file_id = saved.file_id;
  }
  return chunk;
}

absl::Status RestoreDirectories(const HandoverRecord& record, MountState& state) {
  state.open_directories.SetNext(record.next_directory);
  for (const HandoverRecord::Directory& saved : record.directories) {
    auto directory = std::make_shared<DirectoryState>(
        saved.nodeid, saved.handle, std::make_shared<const client::Identity>(saved.opener));
    std::shared_ptr<const DirectoryChunk> chunk;
    if (!saved.known_here.empty()) chunk = KnownHere(saved);
    directory->SetChunk(std::move(chunk), saved.cookieverf);
    if (saved.listed) directory->BeginListing();
    directory->opened_by = saved.opened_by;
    if (saved.opened_by != 0) state.left.opens.AddDirectory(saved.opened_by, saved.fh);
    state.live_files.Put(saved.fh, *directory);
    if (!state.open_directories.Restore(saved.fh, std::move(directory))) {
      return Contradiction("open directories");
    }
  }
  return absl::OkStatus();
}

absl::flat_hash_set<wire::StateId> UsedOpens(const HandoverRecord& record) {
  absl::flat_hash_set<wire::StateId> used;
  for (const HandoverRecord::File& file : record.files) used.insert(file.state_id);
  for (const HandoverRecord::Owner& owner : record.owners) used.insert(owner.state_id);
  return used;
}

void RestoreLeftOpens(const HandoverRecord& record, MountState& state) {
  const absl::flat_hash_set<wire::StateId> used = UsedOpens(record);
  for (const HandoverRecord::Open& open : record.opens) {
    const uint64_t request = OwnerNames::RequestOf(open.owner);
    if (request == 0 || open.closing || used.contains(open.name)) continue;
    state.left.opens.AddOpen(request, open.name, open.user);
  }
}

// The user of an owner's OPEN: of a file through which it locked. After RestoreFiles.
std::shared_ptr<const client::Identity> OpenerOf(const HandoverRecord::Owner& owner,
                                                 const MountState& state) {
  for (const uint64_t handle : owner.handles) {
    if (const std::shared_ptr<OpenState> open = state.open_files.Find(handle)) return open->opener;
  }
  return std::make_shared<client::Identity>();  // of a damaged record
}

absl::Status RestoreOwners(const HandoverRecord& record, MountState& state) {
  std::vector<LockOwner> owners;
  for (const HandoverRecord::Owner& saved : record.owners) {
    LockOwner& owner = owners.emplace_back();
    owner.nodeid = saved.nodeid;
    owner.kernel_owner = saved.kernel_owner;
    owner.number = saved.number;
    owner.process = saved.process;
    owner.name = saved.name;
    owner.opener = OpenerOf(saved, state);
    owner.state_id = saved.state_id;
    owner.pid = saved.pid;
    owner.handles.insert(saved.handles.begin(), saved.handles.end());
  }
  return state.lock_owners.Restore(std::move(owners), record.last_process)
             ? absl::OkStatus()
             : Contradiction("owners of locks");
}

}  // namespace

void SaveBasis(const MountState& state, client::Client& client, HandoverRecord& record) {
  SaveClientBasis(client, record);
  SaveMountBasis(state, record);
  record.inodes = state.caches.inodes.SaveRoot();
  record.verifier = client.options().client_verifier;
  record.last_open = client.opens().last_name();
  record.last_process = state.lock_owners.last_process();
}

namespace {

void TakeNodes(std::vector<LiveNodes::Node> nodes, HandoverRecord& record) {
  absl::flat_hash_map<wire::FileHandle, uint64_t> newest;
  for (const LiveNodes::Node& node : nodes) {
    uint64_t& latest = newest[node.handle];
    latest = std::max(latest, node.nodeid);
  }
  for (const LiveNodes::Node& node : nodes) {
    InodeTable::Saved::Node& saved = record.inodes.nodes.emplace_back();
    static_cast<LiveNodes::Node&>(saved) = node;
    saved.newest = newest[node.handle] == node.nodeid;
    saved.change = kUnknownChange;
  }
}

// Keeps the opens that something uses, and those whose OPEN the kernel sends again, and marks those
// to be closed. A local open without a file has no user: the server does not know it.
void SortOpens(const std::vector<wire::StateId>& ended, HandoverRecord& record) {
  const absl::flat_hash_set<wire::StateId> used = UsedOpens(record);
  absl::flat_hash_set<wire::StateId> lent;
  for (const HandoverRecord::Delegation& one : record.delegations) lent.insert(one.state_id);
  const absl::flat_hash_set<wire::StateId> to_close(ended.begin(), ended.end());
  std::erase_if(record.opens, [&](const HandoverRecord::Open& open) {
    return open.is_local && !used.contains(open.name);
  });
  for (HandoverRecord::Open& open : record.opens) {
    open.closing = !used.contains(open.name) && (open.closing || to_close.contains(open.name) ||
                                                 OwnerNames::RequestOf(open.owner) == 0);
    if (!open.is_local || lent.contains(open.state_id)) continue;
    open.is_local = false;  // its next use opens it at the server
    open.client_id = wire::ClientId();
  }
}

// An owner has ended with the last handle through which it locked, as in LockOwners::EndHandle. The
// kernel may have released that just before the kill.
void EndOwners(std::vector<wire::StateId>& ended, HandoverRecord& record) {
  absl::flat_hash_set<uint64_t> handles;
  for (const HandoverRecord::File& file : record.files) handles.insert(file.fh);
  std::erase_if(record.owners, [&](HandoverRecord::Owner& owner) {
    std::erase_if(owner.handles, [&](uint64_t handle) { return !handles.contains(handle); });
    if (!owner.handles.empty()) return false;
    ended.push_back(owner.state_id);
    return true;
  });
}

// Drops items that name an item that is missing. Only a damaged record has them.
void DropDangling(HandoverRecord& record) {
  absl::flat_hash_set<uint64_t> nodes = {kRootNode};
  for (const InodeTable::Saved::Node& node : record.inodes.nodes) nodes.insert(node.nodeid);
  absl::flat_hash_set<wire::StateId> opens = {wire::StateId()};
  std::erase_if(record.opens,
                [&](const HandoverRecord::Open& open) { return open.name.is_zero(); });
  for (const HandoverRecord::Open& open : record.opens) opens.insert(open.name);
  std::erase_if(record.files, [&](const HandoverRecord::File& file) {
    return file.fh == 0 || !nodes.contains(file.nodeid) || !opens.contains(file.state_id);
  });
  std::erase_if(record.directories, [&](const HandoverRecord::Directory& directory) {
    return directory.fh == 0 || !nodes.contains(directory.nodeid);
  });
  std::erase_if(record.owners, [&](const HandoverRecord::Owner& owner) {
    return !opens.contains(owner.state_id);
  });
  std::erase_if(record.locks, [&](const HandoverRecord::Lock& lock) {
    return lock.open.is_zero() || !opens.contains(lock.open);
  });
}

}  // namespace

void AfterKill(std::span<const LiveRecord::Item> left, HandoverRecord& record) {
  TakeNodes(LiveNodes::Of(left), record);
  LiveClient::Read(left, record);
  LiveFiles::Left files = LiveFiles::Read(left);
  record.files = std::move(files.files);
  record.pieces = std::move(files.pieces);
  record.directories = std::move(files.directories);
  record.owners = std::move(files.owners);
  DropDangling(record);
  EndOwners(files.ended, record);
  SortOpens(files.ended, record);
  for (uint64_t* next : {&record.next_owner, &record.next_file, &record.next_directory,
                         &record.inodes.next, &record.last_open, &record.last_process}) {
    *next += kMostNumbers;
  }
}

void SaveMount(const MountState& state, client::Client& client, HandoverRecord& record) {
  SaveClient(client, record);
  SaveMountBasis(state, record);
  record.inodes = state.caches.inodes.Save();
  state.open_files.ForEach(
      [&](uint64_t fh, const OpenState& open) { record.files.push_back(Saved(fh, open)); });
  state.open_directories.ForEach([&](uint64_t fh, const DirectoryState& open) {
    record.directories.push_back(Saved(fh, open));
  });
  for (LockOwner& owner : state.lock_owners.Save(&record.last_process)) {
    record.owners.push_back({owner.nodeid,
                             owner.kernel_owner,
                             owner.number,
                             owner.process,
                             std::move(owner.name),
                             owner.state_id,
                             owner.pid,
                             {owner.handles.begin(), owner.handles.end()}});
  }
}

void SetClientOptions(const HandoverRecord& record, client::ClientOptions& options) {
  options.client_id_string = record.client_id_string;
  options.client_verifier = record.verifier;
  options.addresses.clear();
  for (const std::string& address : record.addresses) {
    sockaddr_storage storage = {};
    if (address.size() > sizeof(storage)) continue;
    std::memcpy(&storage, address.data(), address.size());
    options.addresses.emplace_back(reinterpret_cast<const sockaddr*>(&storage),
                                   static_cast<socklen_t>(address.size()));
  }
}

absl::Status RestoreMount(const HandoverRecord& record, MountState& state, client::Client& client) {
  RETURN_IF_ERROR(RestoreClient(record, client));
  state.kernel.default_permissions = record.default_permissions;
  state.kernel.init.Agree(record.init_flags);
  state.owners.Restore(record.next_owner);
  if (!state.caches.inodes.Restore(record.inodes)) return Contradiction("nodes");
  RETURN_IF_ERROR(RestoreFiles(record, state));
  RETURN_IF_ERROR(RestoreDirectories(record, state));
  RestoreLeftOpens(record, state);
  return RestoreOwners(record, state);
}

}  // namespace dafs::fuse
