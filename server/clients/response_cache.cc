#include "server/clients/response_cache.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/system/identity.h"
#include "server/store/system/machine_boot.h"
#include "wire/protocol/limits.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

constexpr uint64_t kMagic = 0x3330636572666164;  // "dafrec03" in memory
constexpr size_t kHeaderBytes = 4096;            // a page, so that slots never share a page with it
constexpr char kIfRemoved[] = "its clients cannot learn which of their last requests were executed";

}  // namespace

// The first page of the file. Plain data: a later instance of the same program reads it.
struct SessionCache::Header {
  uint64_t magic;
  uint32_t streams;
  wire::ByteOrder order;
  wire::SessionId session_id;
  wire::Verifier verifier;
  wire::AuthType method;
  PeerAddress host;
  uint32_t name_bytes;
  char name[wire::kOwnerBound.max_bytes];
  // BootSum of the machine start that the slots are valid for. 0: valid after any, because each
  // slot is on the device before its response is sent.
  uint64_t boot;
  Principal::Proof proof;
  Principal::NameHash name_hash;
};

SessionCache::SessionCache(MappedFile file, const wire::SessionId& session_id,
                           wire::ByteOrder order, const CacheOwner& owner, uint32_t streams,
                           bool stable)
    : stable_(stable),
      file_(std::move(file)),
      session_id_(session_id),
      order_(order),
      owner_(owner),
      streams_(streams) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  auto* header = reinterpret_cast<Header*>(file_.bytes().data());
  header->streams = streams;
  header->order = order;
  header->session_id = session_id;
  header->verifier = owner.verifier;
  PutPrincipal(owner.principal, *header);
  header->name_bytes = static_cast<uint32_t>(owner.client_id_string.size());
  std::memcpy(header->name, owner.client_id_string.data(), owner.client_id_string.size());
  header->boot = stable ? 0 : BootSum();
  std::atomic_signal_fence(std::memory_order_release);
  header->magic = kMagic;
  if (stable_ && !(SyncHeader() && file_.SyncName())) {
    LogWarning(absl::StrCat(file_.path(),
                            ": cannot be written to the device; a loss of power may damage it"));
  }
}

bool SessionCache::SyncHeader() const { return file_.Sync(file_.bytes().first(kHeaderBytes)); }

SessionCache::SessionCache(MappedFile file, const Header& header)
    : file_(std::move(file)),
      session_id_(header.session_id),
      order_(header.order),
      owner_{std::string(header.name, header.name_bytes), header.verifier, PrincipalIn(header)},
      streams_(header.streams) {}

bool SessionCache::IsOutdated(const MappedFile& file) {
  if (file.bytes().size() < kHeaderBytes) return false;
  const auto& header = *reinterpret_cast<const Header*>(file.bytes().data());
  return header.magic == kMagic && header.boot != 0 && header.boot != BootSum();
}

bool SessionCache::IsBegun(const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  const auto is_set = [](std::byte byte) { return byte != std::byte{0}; };
  const std::span<const std::byte> magic = bytes.first(std::min(bytes.size(), sizeof(kMagic)));
  const std::span<const std::byte> slots = bytes.subspan(std::min(bytes.size(), kHeaderBytes));
  return std::any_of(magic.begin(), magic.end(), is_set) ||
         std::any_of(slots.begin(), slots.end(), is_set);
}

std::shared_ptr<SessionCache> SessionCache::Load(MappedFile file) {
  if (file.bytes().size() < kHeaderBytes) return nullptr;
  const auto& header = *reinterpret_cast<const Header*>(file.bytes().data());
  if (header.magic != kMagic || header.streams > 65536 ||
      FileBytes(header.streams) != file.bytes().size() || header.name_bytes > sizeof(header.name)) {
    return nullptr;
  }
  return std::shared_ptr<SessionCache>(new SessionCache(std::move(file), header));
}

size_t SessionCache::FileBytes(uint32_t streams) {
  return kHeaderBytes + size_t{streams} * JournalSlot::kBytes;
}

void SessionCache::SetPrincipal(const Principal& principal) {
  owner_.principal = principal;
  PutPrincipal(principal, *reinterpret_cast<Header*>(file_.bytes().data()));
  if (stable_ && !SyncHeader()) {
    LogWarning(absl::StrCat(file_.path(),
                            ": cannot be written to the device; a loss of power may damage it"));
  }
}

JournalSlot& SessionCache::slot(uint16_t stream_id) const {
  return *reinterpret_cast<JournalSlot*>(file_.bytes().data() + kHeaderBytes +
                                         size_t{stream_id} * JournalSlot::kBytes);
}

void SessionCache::Passed(uint16_t stream_id, uint16_t seq_number) {
  const auto is_old = [&](uint16_t number) {
    return static_cast<uint16_t>(seq_number - number) >= 0x8000;
  };
  if (!large_.empty()) {
    auto large = large_.find(stream_id);
    if (large != large_.end() && is_old(large->second.seq_number)) large_.erase(large);
  }
  JournalSlot& entry = slot(stream_id);
  if (entry.state.load(std::memory_order_relaxed) == SlotState::kEmpty) return;
  if (is_old(entry.seq_number)) entry.Clear();
}

void SessionCache::Answer(const wire::RequestHeader& request, DafsStatus status,
                          std::span<const std::byte> body) {
  JournalSlot& entry = slot(request.stream_id);
  if (body.size() <= JournalSlot::kResponseMax) {
    entry.Answer(request.seq_number, request.procedure, status, body, stable_);
    if (!large_.empty()) large_.erase(request.stream_id);
    return;
  }
  // An executed intent stays for the recovery after a restart.
  if (entry.state.load(std::memory_order_relaxed) != SlotState::kExecuted) entry.Clear();
  large_[request.stream_id] = {.seq_number = request.seq_number,
                               .procedure = request.procedure,
                               .status = status,
                               .body = {body.begin(), body.end()}};
}

DafsStatus SessionCache::Find(uint16_t stream_id, uint16_t seq_number, uint32_t procedure,
                              Entry* entry) const {
  if (stream_id >= streams_) return DafsStatus::kNoXidMatch;
  const auto proc = static_cast<wire::Proc>(procedure);
  if (auto large = large_.find(stream_id); large != large_.end()) {
    const Large& found = large->second;
    if (found.seq_number == seq_number && found.procedure == proc) {
      *entry = {found.status, found.body};
      return DafsStatus::kOk;
    }
  }
  const JournalSlot& found = slot(stream_id);
  if (!is_unsettled_.empty() && is_unsettled_[stream_id].load(std::memory_order_acquire)) {
    return DafsStatus::kDelay;
  }
  if (found.state.load(std::memory_order_acquire) != SlotState::kAnswered ||
      found.seq_number != seq_number || found.procedure != proc ||
      found.response_bytes > JournalSlot::kResponseMax) {
    return DafsStatus::kNoXidMatch;
  }
  *entry = {found.status, {found.response, found.response_bytes}};
  return DafsStatus::kOk;
}

void SessionCache::NoteUnsettled(uint16_t stream_id) {
  if (is_unsettled_.empty()) is_unsettled_ = std::vector<std::atomic<bool>>(streams_);
  is_unsettled_[stream_id].store(true, std::memory_order_relaxed);
  unsettled_.fetch_add(1, std::memory_order_relaxed);
}

void SessionCache::NoteSettled(uint16_t stream_id) {
  is_unsettled_[stream_id].store(false, std::memory_order_release);
  unsettled_.fetch_sub(1, std::memory_order_release);
}

// ---- The table ---------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<ResponseCache>> ResponseCache::Open(const Options& options,
                                                                   absl::Time now) {
  std::unique_ptr<ResponseCache> table(new ResponseCache(options));
  const std::string directory = options.state_dir + "/responses";
  const bool is_missing = mkdir(directory.c_str(), 0700) == 0;
  if (is_missing && options.has_served) {
    LogError(absl::StrCat(directory, ": missing; created again: ", kIfRemoved));
  }
  if (!is_missing && errno != EEXIST) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, ": ", std::strerror(errno), "; the state directory must be writable for dafsd"));
  }
  std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(directory.c_str()), &closedir);
  if (listing == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": ", std::strerror(errno)));
  }
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(listing.get());
    if (entry == nullptr && errno != 0) {
      return CannotStartWithout(absl::FailedPreconditionError(
                                    absl::StrCat("list ", directory, ": ", std::strerror(errno))),
                                kIfRemoved);
    }
    if (entry == nullptr) return table;
    if (entry->d_name[0] == '.') continue;
    RETURN_IF_ERROR(table->Load(absl::StrCat(directory, "/", entry->d_name), now));
  }
}

absl::Status ResponseCache::Load(const std::string& path, absl::Time now) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok() && !absl::IsDataLoss(file.status())) {
    return CannotStartWithout(file.status(), kIfRemoved);
  }
  std::shared_ptr<SessionCache> cache;
  bool was_begun = false;
  if (file.ok() && SessionCache::IsOutdated(*file)) {
    LogWarning(absl::StrCat(path,
                            ": written before the machine restarted, without --stable=power; "
                            "removed: ",
                            kIfRemoved));
    unlink(path.c_str());
    return absl::OkStatus();
  }
  if (file.ok()) {
    was_begun = SessionCache::IsBegun(*file);
    cache = SessionCache::Load(*std::move(file));
  }
  if (cache == nullptr && was_begun) {
    LogError(absl::StrCat(path, ": damaged; removed: ", kIfRemoved));
  } else if (cache == nullptr) {
    // The session never started, or a loss of power left nothing of its cache.
    LogWarning(absl::StrCat(path, ": empty; removed"));
  }
  if (cache == nullptr) {
    unlink(path.c_str());
    return absl::OkStatus();
  }
  absl::MutexLock lock(&mutex_);
  bytes_ += cache->file_bytes();
  const wire::SessionId session_id = cache->session_id();
  const PeerAddress host = cache->owner().principal.host;
  caches_[session_id] = {.cache = std::move(cache), .host = host, .lost = true, .since = now};
  return absl::OkStatus();
}

std::string ResponseCache::PathOf(const wire::SessionId& session_id) const {
  return absl::StrCat(options_.state_dir, "/responses/", wire::HexOf(session_id));
}

std::shared_ptr<SessionCache> ResponseCache::Create(const wire::SessionId& session_id,
                                                    wire::ByteOrder order, const CacheOwner& owner,
                                                    uint32_t streams) {
  const size_t size = SessionCache::FileBytes(streams);
  {
    absl::MutexLock lock(&mutex_);
    while (bytes_ + size > options_.max_bytes && MakeRoom(owner, size)) {
    }
    if (bytes_ + size > options_.max_bytes) {
      LogWarning(absl::StrCat("session without a response cache: ", bytes_, " of ",
                              options_.max_bytes, " bytes are in use (--response-cache)"));
      return nullptr;
    }
    bytes_ += size;
  }
  const ScopedOwnIdentity own;
  absl::StatusOr<MappedFile> file = MappedFile::Create(PathOf(session_id), size);
  absl::MutexLock lock(&mutex_);
  if (!file.ok()) {
    LogWarning(absl::StrCat("session without a response cache: ", file.status().message()));
    bytes_ -= size;
    return nullptr;
  }
  auto cache = std::make_shared<SessionCache>(*std::move(file), session_id, order, owner, streams,
                                              options_.stable);
  caches_[session_id] = {
      .cache = cache, .host = owner.principal.host, .lost = false, .since = absl::InfiniteFuture()};
  return cache;
}

void ResponseCache::Ended(const SessionCache& cache, bool keep, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  auto it = caches_.find(cache.session_id());
  if (it == caches_.end()) return;
  if (!keep) return Drop(cache.session_id());
  it->second.lost = true;
  it->second.since = now;
}

DafsStatus ResponseCache::Find(const wire::SessionId& session_id, const CacheOwner& asker,
                               wire::ByteOrder order, std::shared_ptr<SessionCache>* cache) const {
  absl::MutexLock lock(&mutex_);
  auto it = caches_.find(session_id);
  if (it == caches_.end()) return DafsStatus::kUnknownSession;
  const CacheOwner& owner = it->second.cache->owner();
  // The same instance may connect from another address of its host; a later one may not.
  const bool same_client = owner.client_id_string == asker.client_id_string &&
                           owner.principal.ProvesTheSame(asker.principal) &&
                           (owner.verifier == asker.verifier || owner.principal == asker.principal);
  if (!same_client) return DafsStatus::kNotAuthorized;
  if (it->second.cache->order() != order) return DafsStatus::kBadSession;
  if (!it->second.lost) return DafsStatus::kBadSession;
  *cache = it->second.cache;
  return DafsStatus::kOk;
}

// Removes one lost cache to make room for a new one of `owner`: the oldest of its client, otherwise
// the oldest of the host that keeps the most bytes. The latter only if that host keeps more than
// the client's host would keep with the new cache.
bool ResponseCache::MakeRoom(const CacheOwner& owner, size_t size_bytes) {
  struct Share {
    size_t bytes = 0;
    const Kept* oldest = nullptr;
  };
  const auto take_older = [](const Kept*& oldest, const Kept& kept) {
    if (oldest == nullptr || kept.since < oldest->since) oldest = &kept;
  };
  const Kept* drop = nullptr;
  size_t own_bytes = size_bytes;
  std::map<std::array<uint8_t, 16>, Share> lost;  // by host
  for (const auto& [session_id, kept] : caches_) {
    const bool own_host = kept.host == owner.principal.host;
    if (own_host) own_bytes += kept.cache->file_bytes();
    if (!kept.lost) continue;
    Share& share = lost[kept.host.bytes];
    share.bytes += kept.cache->file_bytes();
    take_older(share.oldest, kept);
    // The same name alone does not make the cache the client's own: the client may not have
    // authenticated.
    const CacheOwner& of = kept.cache->owner();
    if (of.client_id_string == owner.client_id_string &&
        of.principal.ProvesTheSame(owner.principal) &&
        (own_host || of.verifier == owner.verifier)) {
      take_older(drop, kept);
    }
  }
  if (drop == nullptr) {
    size_t most = own_bytes;
    for (const auto& [host, share] : lost) {
      if (share.bytes <= most) continue;
      most = share.bytes;
      drop = share.oldest;
    }
  }
  if (drop == nullptr) return false;
  Drop(wire::SessionId(drop->cache->session_id()));
  return true;
}

void ResponseCache::Discard(const SessionCache& cache) {
  absl::MutexLock lock(&mutex_);
  if (caches_.contains(cache.session_id())) Drop(cache.session_id());
}

void ResponseCache::Drop(const wire::SessionId& session_id) {
  const ScopedOwnIdentity own;
  auto it = caches_.find(session_id);
  it->second.cache->Remove();
  bytes_ -= it->second.cache->file_bytes();
  caches_.erase(it);
}

void ResponseCache::Expire(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  std::vector<wire::SessionId> old;
  for (const auto& [session_id, kept] : caches_) {
    if (kept.lost && !kept.cache->has_unsettled() && kept.since + options_.keep_time <= now) {
      old.push_back(session_id);
    }
  }
  for (const wire::SessionId& session_id : old) Drop(session_id);
}

std::vector<std::shared_ptr<SessionCache>> ResponseCache::Lost() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<SessionCache>> lost;
  for (const auto& [session_id, kept] : caches_) {
    if (kept.lost) lost.push_back(kept.cache);
  }
  return lost;
}

size_t ResponseCache::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace dafs::server
