#include "fuse/operations/names/directory.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/shared/name_revalidation.h"
#include "fuse/operations/shared/request_nodes.h"

namespace dafs::fuse {
namespace {

constexpr uint32_t kAnswerMax = 1u << 20;
// How many empty chunks are read for one answer from a server that says that there are more
// entries.
constexpr int kEmptyChunksMax = 8;

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
  const OwnChanges::Moment asked = state_.caches.attributes.MomentOf(call.nodeid());
  client::Attributes attributes;  // opendir(3) requests them next
  client::Attributes* const after = state_.caches.attributes.KeepsFiles() ? &attributes : nullptr;
  absl::Status there;  // READDIR reports errors other than ESTALE
  if (last_was_listed_) {
    there = (co_await chunks_.Read(directory, 0, /*attributes=*/true, after)).status();
  } else {
    absl::StatusOr<client::Attributes> found =
        co_await files_.Of(*user).attributes().GetAttributes(*user, node->handle);
    there = found.status();
    if (found.ok()) attributes = *std::move(found);
  }
  if (attributes.has(wire::kFattrChange)) {
    state_.caches.attributes.KeepPrefetched(call.nodeid(), asked, attributes, asked_at);
  }
  bool lost_name = ErrnoFromStatus(there) == ESTALE;
  if (there.ok()) {
    Task<bool> losing = HasLostName(state_, files_, user, *node, attributes);
    lost_name = co_await losing;
  }
  if (lost_name && !is_retry) {
    ReplyStale(state_, call, call.nodeid());
    co_return;
  }
  fuse_open_out out = {};
  const Chunk chunk = directory->chunk();
  // An announced change finds that the kernel may have the listing, or the check fails.
  if (chunk != nullptr && chunk->names.only_clients && state_.caches.rules.offered()) {
    state_.caches.directory_names.CachesListing(call.nodeid());
    if (state_.caches.rules.IsGood(chunk->names, node->handle)) out.open_flags |= FOPEN_CACHE_DIR;
  }
  out.fh = Open(call, std::move(directory));
  if (!call.Reply({AsBytes(out)})) Close(out.fh);
}

// Opens a directory without a request, if the kernel or the mount has the whole listing, and names
// and attributes are promised. The kernel has checked that the caller may read it.
bool DirectoryOperations::ReplyFromListing(Call& call, const InodeView& node,
                                           const CallerIdentity& user) {
  if (!state_.caches.rules.offered() || !state_.kernel.default_permissions) return false;
  const DirectoryNames::Listing listing = state_.caches.directory_names.ListingOf(node.nodeid);
  const bool cached = state_.caches.rules.Of(listing.names, node.handle) == Keeping::kPromised &&
                      state_.caches.attributes.IsPromised(node.nodeid);
  auto directory = std::make_shared<DirectoryState>(node.nodeid, node.handle, user);
  if (!cached) {
    const Chunk known = chunks_.KnownHere(node);
    if (known == nullptr) return false;
    // An announced change finds that the kernel may have the listing, or the check fails.
    state_.caches.directory_names.CachesListing(node.nodeid);
    if (!state_.caches.rules.IsGood(known->names, node.handle)) return false;
    directory->SetChunk(known, wire::Verifier());
  }
  fuse_open_out out = {};
  out.open_flags = cached ? FOPEN_CACHE_DIR | FOPEN_KEEP_CACHE : FOPEN_CACHE_DIR;
  out.fh = Open(call, std::move(directory));
  if (!call.Reply({AsBytes(out)})) Close(out.fh);
  return true;
}

// Returns the chunk with which an answer at `offset` begins, without a request; null: it must be
// read.
DirectoryOperations::Chunk DirectoryOperations::FirstChunk(DirectoryState& directory, uint64_t fh,
                                                           uint64_t offset, bool plus) {
  Chunk chunk = chunks_.Current(directory, offset, plus);
  if (chunk != nullptr || offset != 0) return chunk;
  if (std::optional<InodeView> node = state_.caches.inodes.Find(directory.nodeid)) {
    chunk = chunks_.KnownHere(*node);
  }
  if (chunk == nullptr) return nullptr;
  directory.SetChunk(chunk, wire::Verifier());
  state_.live_files.Put(fh, directory);
  return chunk;
}

// An answer is about to end with entries of `chunk`. Records what the kernel knows after it.
void DirectoryOperations::NoteListed(DirectoryState& directory, const DirectoryChunk& chunk,
                                     bool is_first, bool is_empty) {
  const client::Promise names = directory.NoteNames(chunk.names, is_first);
  // The kernel knows that a listing is whole when an answer has no entries.
  if (is_empty && chunk.eof && state_.caches.rules.offered()) {
    state_.caches.directory_names.Listed(directory.nodeid, names);
  }
  if (chunk.known_here) state_.caches.attributes.KeepSent(directory.nodeid, Loop::Now());
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
  uint64_t cookie = read.offset <= DirectoryChunks::kDotDotOffset ? 0 : read.offset;
  Chunk chunk = FirstChunk(*directory, read.fh, read.offset, plus);
  std::optional<size_t> position;
  if (chunk != nullptr) position = DirectoryChunks::PositionAfter(*chunk, cookie);
  for (int empty = 0; empty < kEmptyChunksMax; ++empty) {
    if (!position.has_value()) {
      const wire::Verifier verifier = directory->cookieverf();
      const bool known_here = chunk != nullptr && chunk->known_here;
      absl::StatusOr<Chunk> fresh = co_await chunks_.Read(directory, cookie, plus);
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
    entries_.AddDots(answer, *directory, read.offset, plus);
    bool full = false;
    for (size_t i = *position; i < chunk->entries.size() && !full; ++i) {
      full = !entries_.Add(call, answer, *directory, *chunk, chunk->entries[i], plus);
    }
    if (full || chunk->eof || !answer.empty()) break;
    if (!chunk->entries.empty()) cookie = chunk->entries.back().cookie;
    position.reset();
  }
  NoteListed(*directory, *chunk, read.offset == 0, answer.empty());
  if (!call.Reply({answer.bytes()})) {
    for (uint64_t nodeid : answer.counted()) context_.entries.Undo(nodeid);
  }
}

uint64_t DirectoryOperations::Open(const Call& call, std::shared_ptr<DirectoryState> directory) {
  directory->opened_by = call.header().unique & ~kUniqueResent;
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
