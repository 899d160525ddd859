#include "fuse/operations/names/directory_chunks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/state/file_owners.h"
#include "fuse/kernel/acls/acl_in_mode.h"

namespace dafs::fuse {
namespace {

constexpr uint32_t kChunkBytes = 128u << 10;  // a small buffer of the pool, some 400 entries
// A chunk older than this is read again, so that a slow listing does not show outdated entries.
constexpr absl::Duration kChunkIsGoodFor = absl::Seconds(1);
// A directory with more names is not listed from what the mount knows: that takes 1 us for each.
constexpr size_t kKnownHereMost = 4096;

constexpr uint64_t kPlusAttributes = client::kStatAttributes | wire::kFattrFilehandle;
constexpr uint64_t kNameAttributes = wire::kFattrFileId | wire::kFattrObjectType;
// With a filehandle, an entry has its inode number even if it lies in another file system.
constexpr uint64_t kNumberAttributes = kNameAttributes | wire::kFattrFilehandle;

// Appends the entries of `page` to `chunk`. `acls`: the entries have ACLs.
absl::Status ReadEntries(client::DirectoryPage& page, bool acls, DirectoryChunk& chunk) {
  chunk.eof = page.eof;
  chunk.entries.reserve(page.entries.count());
  wire::DirentView view;
  while (page.entries.Next(view)) {
    // 6.5.29: no entry has these cookies. A caller that continued after one would restart the
    // listing and never reach its end.
    if (view.cookie <= DirectoryChunks::kDotDotOffset) {
      return absl::DataLossError(
          absl::StrCat("read directory: an entry's cookie is ", view.cookie));
    }
    DirectoryChunk::Entry entry;
    entry.cookie = view.cookie;
    entry.name = std::string(view.name);
    if (view.attrs != nullptr) entry.attributes = *view.attrs;
    if (acls && entry.attributes.has(wire::kFattrAcl | wire::kFattrMode)) {
      entry.acl_in_mode = IsAclInMode(entry.attributes.acl, entry.attributes.mode);
      entry.attributes.acl = {};
    }
    chunk.entries.push_back(std::move(entry));
  }
  return page.entries.status();
}

// Whether some entry has attributes, but no inode number.
bool LacksNumbers(const DirectoryChunk& chunk) {
  return std::any_of(chunk.entries.begin(), chunk.entries.end(), [](const auto& entry) {
    return entry.attributes.has(wire::kFattrObjectType) &&
           !entry.attributes.has(wire::kFattrFileId);
  });
}

// The attributes of entries whose owners are names (WIRE R90).
std::vector<wire::FileAttributes*> WithOwnerNames(DirectoryChunk& chunk) {
  std::vector<wire::FileAttributes*> named;
  for (DirectoryChunk::Entry& entry : chunk.entries) {
    if (client::FileOwners::HasNames(entry.attributes)) named.push_back(&entry.attributes);
  }
  return named;
}

}  // namespace

DirectoryChunks::Chunk DirectoryChunks::KnownHere(const InodeView& node) {
  if (!state_.kernel.default_permissions) return nullptr;
  if (!state_.caches.attributes.IsPromised(node.nodeid)) return nullptr;
  const absl::Time now = Loop::Now();
  const auto whole = state_.caches.whole_directories.NamesOf(node.handle, kKnownHereMost, now);
  if (!whole.has_value()) return nullptr;
  auto chunk = std::make_shared<DirectoryChunk>();
  chunk->attributes = chunk->eof = chunk->known_here = true;
  chunk->asked_at = now;
  chunk->names = whole->promise;
  chunk->entries.reserve(whole->names.size());
  for (const std::string& name : whole->names) {
    const auto kept = state_.caches.directory_names.Find(node.nodeid, name, now);
    if (!kept.has_value() || !state_.caches.attributes.IsAnswered(kept->nodeid, now))
      return nullptr;
    const std::optional<InodeView> object = state_.caches.inodes.Find(kept->nodeid);
    if (!object.has_value() || !IsAclKnown(*object)) return nullptr;
    DirectoryChunk::Entry entry;
    entry.cookie = kDotDotOffset + 1 + chunk->entries.size();
    entry.name = name;
    entry.attributes.set(kNumberAttributes);
    entry.attributes.object_type = object->type;
    entry.attributes.file_id = object->file_id;
    entry.attributes.filehandle = object->handle;
    chunk->entries.push_back(std::move(entry));
  }
  return state_.caches.rules.IsGood(chunk->names, node.handle) ? chunk : nullptr;
}

// Whether ls -l learns the object's ACL without a request.
bool DirectoryChunks::IsAclKnown(const InodeView& object) const {
  if (!state_.options.acl) return true;
  if (object.type != wire::ObjectType::kReg && object.type != wire::ObjectType::kDir) return true;
  const absl::Time now = Loop::Now();
  return state_.caches.absent_xattrs.Known(object.nodeid, AbsentXattr::kAccessAcl, now) &&
         (object.type == wire::ObjectType::kReg ||
          state_.caches.absent_xattrs.Known(object.nodeid, AbsentXattr::kDefaultAcl, now));
}

Task<absl::StatusOr<DirectoryChunks::Chunk>> DirectoryChunks::Read(
    std::shared_ptr<DirectoryState> directory, uint64_t cookie, bool attributes,
    client::Attributes* after) {
  absl::StatusOr<client::BufferLease> lease =
      co_await files_.Of(*directory->opener)
          .buffers()
          .Acquire(client::BufferUse::kReadTarget, kChunkBytes);
  if (!lease.ok()) co_return lease.status();
  auto chunk = std::make_shared<DirectoryChunk>();
  chunk->from_cookie = cookie;
  chunk->attributes = attributes;
  chunk->asked_at = Loop::Now();
  wire::Verifier cookieverf;
  if (cookie != 0) cookieverf = directory->cookieverf();
  uint64_t wanted = attributes ? kPlusAttributes : kNameAttributes;
  // The kernel keeps a promised listing, so what it lacks is requested file by file later.
  const bool promised = state_.caches.attributes.IsPromised(directory->nodeid);
  const bool acls = attributes && state_.options.acl && state_.caches.attributes.KeepsFiles() &&
                    (promised || state_.listing_acls.wanted());
  if (acls) {
    state_.listing_acls.CountOne();
    wanted |= wire::kFattrAcl;
  }
  const bool begins = cookie == 0 && promised && state_.kernel.default_permissions;
  const uint64_t listing =
      begins ? state_.caches.whole_directories.BeginListing(directory->handle) : uint64_t{0};
  const auto read = [&](uint64_t with) {
    return files_.Of(*directory->opener)
        .directories()
        .ReadDirectory(*directory->opener, directory->handle, cookie, cookieverf, kChunkBytes, with,
                       *lease, after);
  };
  absl::StatusOr<client::DirectoryPage> page = co_await read(wanted);
  if (acls && wire::DafsFromStatus(page.status()) == wire::DafsStatus::kReaddirNoSpc) {
    page = co_await read(wanted & ~wire::kFattrAcl);
  }
  if (!page.ok()) co_return page.status();
  if (absl::Status status = ReadEntries(*page, acls, *chunk); !status.ok()) co_return status;
  if (!attributes && LacksNumbers(*chunk)) {
    page = co_await read(kNumberAttributes);
    if (!page.ok()) co_return page.status();
    chunk->entries.clear();
    if (absl::Status status = ReadEntries(*page, false, *chunk); !status.ok()) co_return status;
  }
  const std::vector<wire::FileAttributes*> named = WithOwnerNames(*chunk);
  if (!named.empty()) {
    Task<absl::StatusOr<bool>> numbering =
        files_.Of(*directory->opener).directories().NumberOwners(named);
    const absl::StatusOr<bool> has_all = co_await numbering;
    if (!has_all.ok()) co_return has_all.status();
    if (!*has_all) page->attributes = {};
  }
  chunk->names = page->names;
  chunk->attributes_promise = page->attributes;
  directory->SetChunk(chunk, page->cookieverf);
  NoteWhole(*directory, *chunk, listing);
  co_return Chunk(std::move(chunk));
}

// The directory is whole if `chunk` ends a listing all of which is promised. `listing`: the number
// of the listing that begins with it.
void DirectoryChunks::NoteWhole(DirectoryState& directory, const DirectoryChunk& chunk,
                                uint64_t listing) {
  constexpr size_t kMost = WholeDirectories::kMostBytes / sizeof(std::string);
  DirectoryState::Whole whole = directory.Collect(chunk, listing, kMost);
  if (whole.listing == 0) return;
  if (!whole.promise.only_clients) whole.promise = {};
  state_.caches.whole_directories.EndListing(directory.handle, whole.listing, whole.names,
                                             whole.promise,
                                             Loop::Now() + PromiseRules::kPromisedFor);
}

DirectoryChunks::Chunk DirectoryChunks::Current(DirectoryState& directory, uint64_t offset,
                                                bool plus) {
  const bool goes_on = offset != 0 || directory.BeginListing();  // not after rewinddir(3)
  Chunk chunk = directory.chunk();
  if (!goes_on || chunk == nullptr) return nullptr;
  if (chunk->known_here && offset != 0) return chunk;
  // This mount has changed the directory since OPENDIR.
  if (offset == 0 && state_.caches.attributes.ChangedSince(directory.nodeid, chunk->asked_at))
    return nullptr;
  if (plus && !chunk->attributes) return nullptr;
  // The kernel must not put a listing into its cache that has changed since.
  if (chunk->names && !state_.caches.rules.IsGood(chunk->names, directory.handle)) return nullptr;
  return Loop::Now() - chunk->asked_at > kChunkIsGoodFor ? nullptr : chunk;
}

std::optional<size_t> DirectoryChunks::PositionAfter(const DirectoryChunk& chunk, uint64_t cookie) {
  if (chunk.from_cookie == cookie) return 0;
  for (size_t i = 0; i < chunk.entries.size(); ++i) {
    if (chunk.entries[i].cookie != cookie) continue;
    bool last = i + 1 == chunk.entries.size();
    if (last && !chunk.eof) return std::nullopt;
    return i + 1;
  }
  return std::nullopt;
}

}  // namespace dafs::fuse
