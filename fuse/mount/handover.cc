#include "fuse/mount/handover.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "fuse/operations/server_opens.h"
#include "runtime/status_macros.h"

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
    open.who = entry.info->who;
    open.state_id = entry.state_id;
    open.client_id = entry.client_id;
    open.lost = static_cast<uint32_t>(entry.lost.code());
    const auto why = entry.lost.message();
    open.lost_why.assign(why.data(), why.size());
    open.closing = entry.closing;
  }
}

void SaveClientBasis(client::Client& client, HandoverRecord& record) {
  const client::ClientOptions& options = client.options();
  record.client_id_string = options.client_id_string;
  for (const dat::Address& address : options.addresses) {
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
                            client.locks().HeldBy(owner.file, owner.state_id)});
  }
  for (client::Credentials::Entry& entry : client.credentials().Save(&record.credentials_of)) {
    record.credentials.push_back({std::move(entry.who), entry.handle});
  }
}

void SaveMountBasis(const MountState& state, HandoverRecord& record) {
  record.default_permissions = state.default_permissions;
  record.init_flags = state.init_flags;
  record.next_owner = state.next_owner;
  record.next_file = state.open_files.next();
  record.next_directory = state.open_directories.next();
}

HandoverRecord::File FileOf(uint64_t fh, const OpenState& open) {
  HandoverRecord::File file;
  file.fh = fh;
  file.nodeid = open.nodeid;
  file.handle = open.handle;
  file.state_id = open.state_id;
  file.flags = open.flags;
  file.change = open.change;
  file.opener = *open.opener;
  file.by_own_right = open.by_own_right;
  file.owner_changed = open.writes != nullptr && open.owner_changes != open.writes->owner_changes();
  return file;
}

HandoverRecord::Directory DirectoryOf(uint64_t fh, const DirectoryState& open) {
  HandoverRecord::Directory directory;
  directory.fh = fh;
  directory.nodeid = open.nodeid;
  directory.handle = open.handle;
  directory.opener = *open.opener;
  directory.cookieverf = open.cookieverf();
  directory.listed = open.listed();
  const std::shared_ptr<const DirectoryChunk> chunk = open.chunk();
  // The server does not know the cookies of this one.
  if (chunk == nullptr || !chunk->known_here) return directory;
  for (const DirectoryChunk::Entry& entry : chunk->entries) {
    directory.known_here.push_back({entry.cookie, entry.name, entry.attributes.filehandle,
                                    static_cast<uint32_t>(entry.attributes.object_type),
                                    entry.attributes.file_id});
  }
  return directory;
}

// ---- Restore -----------------------------------------------------------------------------------

absl::Status Contradiction(std::string_view what) {
  return absl::DataLossError(absl::StrCat("the record of the mount contradicts itself: ",
                                          absl::string_view(what.data(), what.size())));
}

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
    info.who = open.who;
    client::Opens::Entry entry;
    entry.info = std::make_shared<const client::OpenInfo>(std::move(info));
    entry.state_id = open.state_id;
    entry.client_id = open.client_id;
    entry.closing = open.closing;
    if (open.lost != 0) {
      entry.lost = absl::Status(static_cast<absl::StatusCode>(open.lost),
                                absl::string_view(open.lost_why.data(), open.lost_why.size()));
    }
    saved.entries.emplace_back(open.name, std::move(entry));
  }
  return client.opens().Restore(std::move(saved)) ? absl::OkStatus() : Contradiction("opens");
}

absl::Status RestoreClient(const HandoverRecord& record, client::Client& client) {
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
      client.locks().Granted({lock.file, lock.open, lock.process}, range);
    }
  }
  const auto most = static_cast<uint32_t>(record.credentials.size());
  for (auto one = record.credentials.rbegin(); one != record.credentials.rend(); ++one) {
    client.credentials().Insert(record.credentials_of, one->who, one->handle, most);
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
    open->writes = state.write_trackers.Of(file.nodeid);
    open->owner_changes = open->writes->owner_changes() + (file.owner_changed ? 1 : 0);
    open->errors = open->writes->SampleErrors();
    open->bypasses_before = state.pages.BeginOpen(file.nodeid, BypassesPages(file.flags));
    if (!state.open_files.Restore(file.fh, std::move(open))) return Contradiction("open files");
  }
  return absl::OkStatus();
}

std::shared_ptr<const DirectoryChunk> KnownHere(const HandoverRecord::Directory& directory) {
  auto chunk = std::make_shared<DirectoryChunk>();
  chunk->attributes = chunk->eof = chunk->known_here = true;
  chunk->asked_at = absl::InfinitePast();
  for (const HandoverRecord::Entry& saved : directory.known_here) {
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
    if (!state.open_directories.Restore(saved.fh, std::move(directory))) {
      return Contradiction("open directories");
    }
  }
  return absl::OkStatus();
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
  record.inodes = state.inodes.SaveRoot();
}

void AfterKill(const std::vector<LiveNodes::Node>& nodes, HandoverRecord& record) {
  record.verifier = wire::Verifier();
  for (uint64_t* next :
       {&record.next_owner, &record.next_file, &record.next_directory, &record.inodes.next}) {
    *next += kMostNumbers;
  }
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

void SaveMount(const MountState& state, client::Client& client, HandoverRecord& record) {
  SaveClient(client, record);
  SaveMountBasis(state, record);
  record.inodes = state.inodes.Save();
  state.open_files.ForEach(
      [&](uint64_t fh, const OpenState& open) { record.files.push_back(FileOf(fh, open)); });
  state.open_directories.ForEach([&](uint64_t fh, const DirectoryState& open) {
    record.directories.push_back(DirectoryOf(fh, open));
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
  state.default_permissions = record.default_permissions;
  state.init_flags = record.init_flags;
  state.next_owner = record.next_owner;
  if (!state.inodes.Restore(record.inodes)) return Contradiction("nodes");
  RETURN_IF_ERROR(RestoreFiles(record, state));
  RETURN_IF_ERROR(RestoreDirectories(record, state));
  return RestoreOwners(record, state);
}

}  // namespace dafs::fuse
