#include "fuse/operations/directory.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "fuse/kernel/acl_in_mode.h"
#include "fuse/kernel/attributes.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/name_revalidation.h"
#include "fuse/operations/request_nodes.h"

namespace dafs::fuse {
namespace {

constexpr uint32_t kChunkBytes = 128u << 10;  // a small buffer of the pool, some 400 entries
constexpr uint32_t kAnswerMax = 1u << 20;
constexpr uint64_t kDotOffset = 1;
constexpr uint64_t kDotDotOffset = 2;
// A chunk older than this is read again, so that a slow listing does not show outdated entries.
constexpr absl::Duration kChunkIsGoodFor = absl::Seconds(1);
// How many empty chunks are read for one answer from a server that says that there are more
// entries.
constexpr int kEmptyChunksMax = 8;
// A directory with more names is not listed from what the mount knows: that takes 1 us for each.
constexpr size_t kKnownHereMost = 4096;

constexpr uint64_t kPlusAttributes = client::kStatAttributes | wire::kFattrFilehandle;
constexpr uint64_t kNameAttributes = wire::kFattrFileId | wire::kFattrObjectType;
// With a filehandle, an entry has its inode number even if it lies in another file system.
constexpr uint64_t kNumberAttributes = kNameAttributes | wire::kFattrFilehandle;
// An entry without these cannot be returned to the kernel as a node.
constexpr uint64_t kNeeded =
    wire::kFattrObjectType | wire::kFattrChange | wire::kFattrObjectSize | wire::kFattrFilehandle;

bool IsEntryName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

// Appends the entries of `page` to `chunk`. `acls`: the entries have ACLs.
absl::Status ReadEntries(client::DirectoryPage& page, bool acls, DirectoryChunk& chunk) {
  chunk.eof = page.eof;
  chunk.entries.reserve(page.entries.count());
  wire::DirentView view;
  while (page.entries.Next(view)) {
    // 6.5.29: no entry has these cookies. A caller that continued after one would restart the
    // listing and never reach its end.
    if (view.cookie <= kDotDotOffset) {
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

// Returns the position in `chunk` after `cookie`; nullopt if it is not in the chunk.
std::optional<size_t> PositionBehind(const DirectoryChunk& chunk, uint64_t cookie) {
  if (chunk.from_cookie == cookie) return 0;
  for (size_t i = 0; i < chunk.entries.size(); ++i) {
    if (chunk.entries[i].cookie != cookie) continue;
    bool last = i + 1 == chunk.entries.size();
    if (last && !chunk.eof) return std::nullopt;
    return i + 1;
  }
  return std::nullopt;
}

// The directory was removed after it was opened: getdents(2) then fails with ENOENT, which
// readdir(3) treats as the end.
void ReplyNotRead(Call& call, const absl::Status& status) {
  if (wire::DafsFromStatus(status) == wire::DafsStatus::kStale) {
    call.ReplyErrno(ENOENT);
  } else {
    call.ReplyStatus(status);
  }
}

}  // namespace

Task<void> DirectoryOperations::Opendir(Call& call) {
  std::optional<InodeView> node = NodeOf(state_, call);
  if (!node) co_return;
  const bool is_retry =
      state_.stale_opens.IsRetry(call.header().pid, call.nodeid(), call.arrived());
  CallerIdentity user = CallerOf(state_, call);
  if (ReplyFromListing(call, *node, user)) co_return;
  auto directory = std::make_shared<DirectoryState>(call.nodeid(), node->handle, user);
  const absl::Time asked_at = Loop::Now();
  const OwnChanges::Moment asked = state_.attributes.MomentOf(call.nodeid());
  client::Attributes attributes;  // opendir(3) requests them next
  client::Attributes* const after = state_.attributes.KeepsFiles() ? &attributes : nullptr;
  absl::Status there;  // READDIR reports errors other than ESTALE
  if (last_was_listed_) {
    there = (co_await ReadChunk(directory, 0, /*attributes=*/true, after)).status();
  } else {
    absl::StatusOr<client::Attributes> found =
        co_await files_.Of(*user).attributes().GetAttributes(*user, node->handle);
    if (found.ok()) attributes = *std::move(found);
    there = found.status();
  }
  if (attributes.has(wire::kFattrChange)) {
    state_.attributes.KeepPrefetched(call.nodeid(), asked, attributes, asked_at);
  }
  bool lost_name = ErrnoFromStatus(there) == ESTALE;
  if (there.ok()) {
    Task<bool> losing = HasLostName(state_, files_, user, *node, attributes);
    lost_name = co_await losing;
  }
  if (lost_name && !is_retry) {
    LookElsewhere(state_, call, call.nodeid());
    co_return;
  }
  fuse_open_out out = {};
  const Chunk chunk = directory->chunk();
  // An announced change finds that the kernel may have the listing, or the check fails.
  if (chunk != nullptr && chunk->names.only_clients && state_.rules.offered()) {
    state_.directory_names.CachesListing(call.nodeid());
    if (state_.rules.IsGood(chunk->names, node->handle)) out.open_flags |= FOPEN_CACHE_DIR;
  }
  out.fh = Open(std::move(directory));
  if (!call.Reply({AsBytes(out)})) Close(out.fh);
}

// Returns the whole listing of a directory without a request, if the kernel has all names there and
// their attributes, and all are promised; otherwise null. The kernel has checked that the caller
// may read the directory. Entries have no attributes: the kernel keeps those that it has.
DirectoryOperations::Chunk DirectoryOperations::KnownHere(const InodeView& node) {
  if (!state_.default_permissions || !state_.attributes.IsPromised(node.nodeid)) return nullptr;
  const absl::Time now = Loop::Now();
  const auto whole = state_.whole_directories.NamesOf(node.handle, kKnownHereMost, now);
  if (!whole.has_value()) return nullptr;
  auto chunk = std::make_shared<DirectoryChunk>();
  chunk->attributes = chunk->eof = chunk->known_here = true;
  chunk->asked_at = now;
  chunk->names = whole->promise;
  chunk->entries.reserve(whole->names.size());
  for (const std::string& name : whole->names) {
    const auto kept = state_.directory_names.Find(node.nodeid, name, now);
    if (!kept.has_value() || !state_.attributes.IsAnswered(kept->nodeid, now)) return nullptr;
    const std::optional<InodeView> object = state_.inodes.Find(kept->nodeid);
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
  return state_.rules.IsGood(chunk->names, node.handle) ? chunk : nullptr;
}

// Whether ls -l learns the object's ACL without a request.
bool DirectoryOperations::IsAclKnown(const InodeView& object) const {
  if (!state_.options.acl) return true;
  if (object.type != wire::ObjectType::kReg && object.type != wire::ObjectType::kDir) return true;
  const absl::Time now = Loop::Now();
  return state_.absent_xattrs.Known(object.nodeid, AbsentXattr::kAccessAcl, now) &&
         (object.type == wire::ObjectType::kReg ||
          state_.absent_xattrs.Known(object.nodeid, AbsentXattr::kDefaultAcl, now));
}

// Opens a directory without a request, if the kernel or the mount has the whole listing, and names
// and attributes are promised. The kernel has checked that the caller may read it.
bool DirectoryOperations::ReplyFromListing(Call& call, const InodeView& node,
                                           const CallerIdentity& user) {
  if (!state_.rules.offered() || !state_.default_permissions) return false;
  const DirectoryNames::Listing listing = state_.directory_names.ListingOf(node.nodeid);
  const bool cached = state_.rules.Of(listing.names, node.handle) == Keeping::kPromised &&
                      state_.attributes.IsPromised(node.nodeid);
  auto directory = std::make_shared<DirectoryState>(node.nodeid, node.handle, user);
  if (!cached) {
    const Chunk known = KnownHere(node);
    if (known == nullptr) return false;
    // An announced change finds that the kernel may have the listing, or the check fails.
    state_.directory_names.CachesListing(node.nodeid);
    if (!state_.rules.IsGood(known->names, node.handle)) return false;
    directory->SetChunk(known, wire::Verifier());
  }
  fuse_open_out out = {};
  out.open_flags = cached ? FOPEN_CACHE_DIR | FOPEN_KEEP_CACHE : FOPEN_CACHE_DIR;
  out.fh = Open(std::move(directory));
  if (!call.Reply({AsBytes(out)})) Close(out.fh);
  return true;
}

Task<absl::StatusOr<DirectoryOperations::Chunk>> DirectoryOperations::ReadChunk(
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
  const bool promised = state_.attributes.IsPromised(directory->nodeid);
  const int with_acls = state_.listings_with_acls.load(std::memory_order_relaxed);
  const bool acls = attributes && state_.options.acl && state_.attributes.KeepsFiles() &&
                    (promised || with_acls > 0);
  if (acls) {
    if (with_acls > 0) state_.listings_with_acls.store(with_acls - 1, std::memory_order_relaxed);
    wanted |= wire::kFattrAcl;
  }
  const bool begins = cookie == 0 && promised && state_.default_permissions;
  const uint64_t listing =
      begins ? state_.whole_directories.BeginListing(directory->handle) : uint64_t{0};
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
  chunk->names = page->names;
  chunk->attributes_promise = page->attributes;
  directory->SetChunk(chunk, page->cookieverf);
  NoteWhole(*directory, *chunk, listing);
  co_return Chunk(std::move(chunk));
}

// The directory is whole if `chunk` ends a listing all of which is promised. `listing`: the number
// of the listing that begins with it.
void DirectoryOperations::NoteWhole(DirectoryState& directory, const DirectoryChunk& chunk,
                                    uint64_t listing) {
  constexpr size_t kMost = WholeDirectories::kMostBytes / sizeof(std::string);
  DirectoryState::Whole whole = directory.Collect(chunk, listing, kMost);
  if (whole.listing == 0) return;
  if (!whole.promise.only_clients) whole.promise = {};
  state_.whole_directories.EndListing(directory.handle, whole.listing, whole.names, whole.promise,
                                      Loop::Now() + PromiseRules::kPromisedFor);
}

// Returns false if the answer is full.
bool DirectoryOperations::AddEntry(const Call& call, DirectoryAnswer& answer,
                                   const DirectoryState& directory, const DirectoryChunk& chunk,
                                   const DirectoryChunk::Entry& entry, bool plus) {
  if (!IsEntryName(entry.name)) return true;
  if (!answer.Fits(entry.name, plus)) return false;
  const wire::FileAttributes& attributes = entry.attributes;
  // For an entry in another file system, the server returns the number only with the handle.
  const wire::FsHandle& fs = attributes.has(wire::kFattrFilehandle) ? attributes.filehandle.fshandle
                                                                    : directory.handle.fshandle;
  uint64_t ino = state_.inodes.NumberIn(fs, attributes.file_id);
  // 0 would make readdir(3) skip the entry.
  if (!attributes.has(wire::kFattrFileId) || ino == 0) ino = ~uint64_t{0};
  if (plus) {
    AddNode(call, answer, directory, chunk, entry, ino);
  } else {
    answer.Add(entry.name, ino, FileTypeBits(attributes.object_type), entry.cookie);
  }
  return true;
}

// For READDIRPLUS. Without the node's attributes if they are not known, or older than what the
// kernel has.
void DirectoryOperations::AddNode(const Call& call, DirectoryAnswer& answer,
                                  const DirectoryState& directory, const DirectoryChunk& chunk,
                                  const DirectoryChunk::Entry& entry, uint64_t ino) {
  const wire::FileAttributes& attributes = entry.attributes;
  const uint32_t type = FileTypeBits(attributes.object_type);
  const uint64_t known = state_.inodes.NodeOf(attributes.filehandle);
  const bool tell = attributes.has(kNeeded) && type != 0 &&
                    !state_.attributes.ChangedSince(directory.nodeid, chunk.asked_at) &&
                    (known == 0 || (!state_.attributes.NewsSince(known, chunk.asked_at) &&
                                    !state_.write_behind.Holds(known)));
  fuse_entry_out out = {};
  if (tell) {
    client::Node node{attributes.filehandle, {attributes, chunk.attributes_promise}, chunk.names};
    out = context_.entries.Entry(call, node, {directory.nodeid, entry.name}, chunk.asked_at);
    if (entry.acl_in_mode) {
      // The promise of the attributes, which arrived with the ACL, covers it too.
      const bool promised = state_.rules.IsGood(chunk.attributes_promise, attributes.filehandle);
      const absl::Time asked = promised ? Loop::Now() : chunk.asked_at;
      state_.absent_xattrs.Note(out.nodeid, AbsentXattr::kAccessAcl, asked);
      if (attributes.object_type == wire::ObjectType::kDir) {
        state_.absent_xattrs.Note(out.nodeid, AbsentXattr::kDefaultAcl, asked);
      }
    }
  }
  answer.AddPlus(out, entry.name, ino, type, entry.cookie);
}

// Returns the chunk that the listing may continue with; null: none, or it is outdated.
DirectoryOperations::Chunk DirectoryOperations::CurrentChunk(DirectoryState& directory,
                                                             uint64_t offset, bool plus) {
  const bool goes_on = offset != 0 || directory.BeginListing();  // not after rewinddir(3)
  const Chunk chunk = directory.chunk();
  if (!goes_on || chunk == nullptr) return nullptr;
  if (chunk->known_here && offset != 0) return chunk;
  // This mount has changed the directory since OPENDIR.
  if (offset == 0 && state_.attributes.ChangedSince(directory.nodeid, chunk->asked_at))
    return nullptr;
  if (plus && !chunk->attributes) return nullptr;
  // The kernel must not put a listing into its cache that has changed since.
  if (chunk->names && !state_.rules.IsGood(chunk->names, directory.handle)) return nullptr;
  return Loop::Now() - chunk->asked_at > kChunkIsGoodFor ? nullptr : chunk;
}

Task<void> DirectoryOperations::Readdir(Call& call) {
  RequestReader in = call.reader();
  auto read = in.Take<fuse_read_in>();
  std::shared_ptr<DirectoryState> directory =
      in.ok() ? state_.open_directories.Find(read.fh) : nullptr;
  if (directory == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  const bool plus = call.header().opcode == FUSE_READDIRPLUS;
  DirectoryAnswer answer(std::min(read.size, kAnswerMax));
  uint64_t cookie = read.offset <= kDotDotOffset ? 0 : read.offset;
  Chunk chunk = CurrentChunk(*directory, read.offset, plus);
  std::optional<size_t> position;
  if (chunk == nullptr && read.offset == 0) {
    if (std::optional<InodeView> node = state_.inodes.Find(directory->nodeid)) {
      chunk = KnownHere(*node);
    }
    if (chunk != nullptr) {
      directory->SetChunk(chunk, wire::Verifier());
      state_.live_files.Put(read.fh, *directory);
    }
  }
  if (chunk != nullptr) position = PositionBehind(*chunk, cookie);
  for (int empty = 0; empty < kEmptyChunksMax; ++empty) {
    if (!position.has_value()) {
      const wire::Verifier verifier = directory->cookieverf();
      const bool known_here = chunk != nullptr && chunk->known_here;
      absl::StatusOr<Chunk> fresh = co_await ReadChunk(directory, cookie, plus);
      if (!fresh.ok()) {
        ReplyNotRead(call, fresh.status());
        co_return;
      }
      if (directory->cookieverf() != verifier || known_here) {
        state_.live_files.Put(read.fh, *directory);
      }
      chunk = *std::move(fresh);
      position = 0;
    }
    if (call.answered()) co_return;  // answered early: count no lookups
    AddDots(answer, *directory, read.offset, plus);
    bool full = false;
    for (size_t i = *position; i < chunk->entries.size() && !full; ++i) {
      full = !AddEntry(call, answer, *directory, *chunk, chunk->entries[i], plus);
    }
    if (full || chunk->eof || !answer.empty()) break;
    if (!chunk->entries.empty()) cookie = chunk->entries.back().cookie;
    position.reset();
  }
  // The kernel knows that a listing is whole when an answer has no entries.
  const client::Promise names = directory->NoteNames(chunk->names, read.offset == 0);
  if (answer.empty() && chunk->eof && state_.rules.offered())
    state_.directory_names.Listed(directory->nodeid, names);
  if (chunk->known_here) state_.attributes.KeepSent(directory->nodeid, Loop::Now());
  if (!call.Reply({answer.bytes()})) {
    for (uint64_t nodeid : answer.counted()) context_.entries.Undo(nodeid);
  }
}

void DirectoryOperations::AddDots(DirectoryAnswer& answer, const DirectoryState& directory,
                                  uint64_t offset, bool plus) {
  if (!answer.empty() || offset >= kDotDotOffset) return;
  std::optional<InodeView> self = state_.inodes.Find(directory.nodeid);
  std::optional<InodeView> parent =
      state_.inodes.Find(state_.inodes.LatestDentryOf(directory.nodeid).parent);
  const auto number = [&](const InodeView& node) {
    return state_.inodes.NumberIn(node.handle.fshandle, node.file_id);
  };
  uint64_t own = self ? number(*self) : directory.nodeid;
  uint64_t above = parent ? number(*parent) : own;
  constexpr uint32_t kDirectory = 0040000;
  auto add = [&](std::string_view name, uint64_t ino, uint64_t next) {
    if (!answer.Fits(name, plus)) return;
    if (plus) {
      answer.AddPlus(fuse_entry_out{}, name, ino, kDirectory, next);
    } else {
      answer.Add(name, ino, kDirectory, next);
    }
  };
  if (offset < kDotOffset) add(".", own, kDotOffset);
  add("..", above, kDotDotOffset);
}

uint64_t DirectoryOperations::Open(std::shared_ptr<DirectoryState> directory) {
  const uint64_t fh = state_.open_directories.Add(directory);
  state_.live_files.Put(fh, *directory);
  return fh;
}

void DirectoryOperations::Close(uint64_t fh) {
  const std::shared_ptr<DirectoryState> directory = state_.open_directories.Remove(fh);
  if (directory != nullptr) state_.live_files.Drop(*directory);
}

Task<void> DirectoryOperations::Releasedir(Call& call) {
  RequestReader in = call.reader();
  auto release = in.Take<fuse_release_in>();
  std::shared_ptr<DirectoryState> directory =
      in.ok() ? state_.open_directories.Find(release.fh) : nullptr;
  if (directory != nullptr) {
    last_was_listed_ = directory->listed();
    Close(release.fh);
  }
  call.ReplyOk();
  co_return;
}

// Sends nothing: the server has executed a change of names when it replies, and COMMIT concerns
// file data only (6.5.8).
Task<void> DirectoryOperations::Fsyncdir(Call& call) {
  call.ReplyOk();
  co_return;
}

}  // namespace dafs::fuse
