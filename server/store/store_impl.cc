#include "server/store/store_impl.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/unique_fd.h"
#include "server/store/attributes/acl.h"
#include "server/store/attributes/attributes.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/system/errno_status.h"
#include "wire/protocol/header.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

size_t DescriptorLimit(size_t wanted) {
  if (wanted > 0) return wanted;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  return static_cast<size_t>(limit.rlim_cur) / 4 * 3;
}

}  // namespace

uint64_t ChangeOf(Object& object) {
  const uint64_t sample = object.change().Sample();
  struct statx stx;
  if (statx(object.path_fd(), "", AT_EMPTY_PATH, STATX_CTIME, &stx) != 0) return 0;
  return object.change().Value(CtimeNs(stx), sample);
}

DafsStatus CheckName(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return DafsStatus::kInval;
  }
  if (name.size() > Intent::kNameMax) return DafsStatus::kNameTooLong;
  return DafsStatus::kOk;
}

bool StoreImpl::IsReserved(const Object& directory, std::string_view name) const {
  return name == kOrphanDirectory && mounts->IsRoot(directory.path_fd());
}

DafsStatus StoreImpl::CheckNotReserved(const Object& directory, std::string_view name) const {
  return IsReserved(directory, name) ? DafsStatus::kAcces : DafsStatus::kOk;
}

NameGuard::NameGuard(Mutexes& mutexes, const ObjectKey& directory, const std::string& name)
    : first_(&mutexes[absl::HashOf(directory, name) % mutexes.size()]) {
  Lock();
}

NameGuard::NameGuard(Mutexes& mutexes, const ObjectKey& directory, const std::string& name,
                     const ObjectKey& other_directory, const std::string& other_name)
    : first_(&mutexes[absl::HashOf(directory, name) % mutexes.size()]),
      second_(&mutexes[absl::HashOf(other_directory, other_name) % mutexes.size()]) {
  if (first_ == second_) second_ = nullptr;
  if (second_ != nullptr && second_ < first_) std::swap(first_, second_);  // same order everywhere
  Lock();
}

void NameGuard::Lock() {
  first_->Lock();
  if (second_ != nullptr) second_->Lock();
}

NameGuard::~NameGuard() {
  if (second_ != nullptr) second_->Unlock();
  first_->Unlock();
}

ChangeProbe::ChangeProbe(Object& directory, RecentStats* recent)
    : directory_(directory), recent_(recent) {
  info_.before = ChangeOf(directory);
}

wire::ChangeInfo ChangeProbe::Modified() {
  directory_.change().Modified();
  const uint64_t sample = directory_.change().Sample();
  struct statx stx;
  if (Statx(directory_.path_fd(), &stx) == 0) {
    info_.after = directory_.change().Value(CtimeNs(stx), sample);
    if (recent_ != nullptr) recent_->Keep(directory_, sample, stx);
  }
  return info_;  // not atomic: another request may change the directory in between
}

StoreImpl::StoreImpl(StoreOptions opts, const HandleKey& key, uint32_t instance_number,
                     std::unique_ptr<WriteVerifier> verifier)
    : options(std::move(opts)),
      max_descriptors(DescriptorLimit(options.max_descriptors)),
      mac(key),
      exports(options.exports),
      instance(instance_number),
      cache(max_descriptors, lock_descriptors),
      promises(options.promises),
      opens(instance_number, options.max_opens, promises),
      delegations(options.delegations),
      leases([this](const ObjectKey& key) { RecallAll(key); }),
      attributes(*this, instance_number),
      database(options.state_dir),
      fencing(database),
      mounts(std::make_unique<Mounts>(exports, mac)),
      write_verifier(std::move(verifier)),
      orphan_record_(options.state_dir),
      orphans_(orphan_record_),
      keep_orphans_(exports.capacity()),
      is_settled_(options.exports.size()),
      paths_(exports.capacity()),
      locks_(exports.capacity()),
      openings(options.exports.size()) {
  for (std::atomic<bool>& keep : keep_orphans_) {
    keep.store(options.keep_orphans, std::memory_order_relaxed);
  }
  for (size_t i = 0; i < exports.size(); ++i) locks_[i] = std::make_unique<Locks>();
  RenewPseudo();
  mounts->OnFound([this](const FileSystem& fs) { TakeUpOrphans(fs); });
  grace.SetExportOf([this](const ObjectKey& file) { return mounts->ExportOf(file.fshandle()); });
  StartLeasesIfNeeded();
}

void StoreImpl::RenewPseudo() {
  // Never the same as before: it is the CHANGE of directories whose names have changed.
  const int64_t before = all_pseudo_.empty() ? 0 : pseudo().root().made_ns;
  const int64_t now = std::max(absl::GetCurrentTimeNanos(), before + 1);
  all_pseudo_.push_back(std::make_unique<const PseudoFs>(exports, mac, now));
  pseudo_.store(all_pseudo_.back().get(), std::memory_order_release);
}

void StoreImpl::StartLeasesIfNeeded() {
  const std::vector<const Export*> served = exports.Served();
  const auto needs_leases = [](const Export* each) { return !each->only_clients_change; };
  absl::MutexLock lock(&reloading_);
  if (uses_leases_ || !options.use_leases || options.delegations.most == Delegations::Type::kNone ||
      std::none_of(served.begin(), served.end(), needs_leases)) {
    return;
  }
  uses_leases_ = true;
  leases.Start();
}

Orphans& StoreImpl::OrphansOf(const FileSystem& fs) {
  if (!fs.may_hang) return orphans_;
  absl::MutexLock lock(&hanging_mutex_);
  std::unique_ptr<Hanging>& hanging = hanging_[fs.device];
  if (hanging == nullptr) hanging.reset(new Hanging{{}, Orphans(orphan_record_)});
  hanging->exports.insert(fs.export_index);
  return hanging->orphans;
}

// Orphans of an earlier instance can be reclaimed in the grace period. After it, removes them at
// once.
void StoreImpl::TakeUpOrphans(const FileSystem& fs) {
  if (fs.exported->read_only) return;
  Orphans& orphans = OrphansOf(fs);
  orphans.TakeUp(fs);
  if (!KeepsOrphans(fs)) SweepEnded(orphans);
}

void StoreImpl::SweepOrphans(const std::vector<size_t>& ended) {
  for (size_t i : ended) keep_orphans_[i].store(false, std::memory_order_relaxed);
  SweepEnded(orphans_);
  for (size_t i : ended) {
    if (run_for_export != nullptr && mounts->MayHang(i)) {
      run_for_export(i, [this, i] { SweepExport(i); });
    } else {
      SweepExport(i);
    }
  }
}

void StoreImpl::SweepExport(size_t export_index) {
  RestoreOwnIdentity();
  std::vector<Orphans*> hanging;
  {
    absl::MutexLock lock(&hanging_mutex_);
    for (const auto& [device, each] : hanging_) {
      if (each->exports.contains(export_index)) hanging.push_back(&each->orphans);
    }
  }
  for (Orphans* orphans : hanging) SweepEnded(*orphans);
  for (const OrphanRecord::Entry& entry : orphan_record_.entries()) {
    if (mounts->ExportOf(entry.fshandle) != export_index) continue;
    // If Find opens the file system only now, the function set with OnFound sweeps it.
    const bool found = mounts->Find(entry.fshandle, entry.subvolume) != nullptr;
    if (!found && mounts->HasMountOf(entry.fshandle, entry.subvolume)) orphan_record_.Remove(entry);
  }
}

DafsStatus StoreImpl::Enter(const Caller& caller, const Export& exported) {
  Identity identity;
  if (exported.squash == Squash::kAll) {
    identity.uid = exported.anonuid;
    identity.gid = exported.anongid;
  } else {
    const bool squash = exported.squash == Squash::kRoot;
    const auto group = [&](uint32_t gid) { return squash && gid == 0 ? exported.anongid : gid; };
    identity.uid = squash && caller.uid == 0 ? exported.anonuid : caller.uid;
    identity.gid = group(caller.gid);
    for (uint32_t gid : caller.groups) identity.groups.push_back(group(gid));
  }
  return AssumeIdentity(identity) ? DafsStatus::kOk : DafsStatus::kServerFault;
}

bool StoreImpl::IsGenuine(const wire::FileHandle& handle) {
  if (ObjectRef object = cache.Find(KeyOf(handle)); object != nullptr) {
    return SameHandle(object->handle(), handle);
  }
  return mac.Verify(handle);
}

DafsStatus StoreImpl::ResolveHandle(const wire::FileHandle& handle, Place* place) {
  const ObjectKey key = KeyOf(handle);
  place->pseudo = nullptr;
  place->object = cache.Find(key);
  if (place->object != nullptr) {
    if (!SameHandle(place->object->handle(), handle)) return DafsStatus::kBadHandle;
  } else {
    if (!mac.Verify(handle)) return DafsStatus::kBadHandle;
    if (KindOf(key) == HandleKind::kPseudo) {
      place->pseudo = pseudo().Find(handle);
      return place->pseudo != nullptr ? DafsStatus::kOk : DafsStatus::kStale;
    }
    if (KindOf(key) != HandleKind::kFile) return DafsStatus::kNotSupp;  // named_attributes.h
    place->object = opens.FindObject(key);
    if (place->object != nullptr) {
      place->object = CacheObject(std::move(place->object));
    } else {
      STORE_RETURN_IF_NOT_OK(OpenByHandle(handle, &place->object));
    }
  }
  return DafsStatus::kOk;
}

DafsStatus StoreImpl::CheckOpened(const wire::FileHandle& handle) const {
  if (handle.fshandle == pseudo().fshandle()) return DafsStatus::kOk;
  const std::optional<size_t> index = mounts->ExportOf(handle.fshandle);
  if (index) return openings.IsOpening(*index) ? DafsStatus::kDelay : DafsStatus::kOk;
  // The FSHandles of an export are unknown until its path is resolved.
  return mac.Verify(handle) ? DafsStatus::kDelay : DafsStatus::kBadHandle;
}

DafsStatus StoreImpl::Resolve(const Caller& caller, const wire::FileHandle& handle, Place* place) {
  STORE_RETURN_IF_NOT_OK(ResolveUnfenced(caller, handle, place));
  return place->pseudo != nullptr ? DafsStatus::kOk : CheckFence(caller, place->object->key());
}

DafsStatus StoreImpl::ResolveUnfenced(const Caller& caller, const wire::FileHandle& handle,
                                      Place* place) {
  if (openings.any()) STORE_RETURN_IF_NOT_OK(CheckOpened(handle));
  STORE_RETURN_IF_NOT_OK(ResolveHandle(handle, place));
  if (place->pseudo != nullptr) return DafsStatus::kOk;
  return place->object->fs().exported->Admission(caller.peer);
}

DafsStatus StoreImpl::AdmissionBelow(const Caller& caller, const PseudoNode& node) const {
  if (node.export_index >= 0) {
    return exports[static_cast<size_t>(node.export_index)].Admission(caller.peer);
  }
  DafsStatus refusal = DafsStatus::kAcces;
  for (const auto& [name, child] : node.children) {
    const DafsStatus status = AdmissionBelow(caller, *child);
    if (status == DafsStatus::kOk) return status;
    if (status == DafsStatus::kWrongSec) refusal = status;  // has a remedy
  }
  return refusal;
}

DafsStatus StoreImpl::OpenByHandle(const wire::FileHandle& handle, ObjectRef* object) {
  const FileSystem* fs = mounts->FindByFileHandle(handle);
  if (fs == nullptr || fs->retired.load()) {
    return mounts->IsRetired(handle.fshandle) ? DafsStatus::kAcces : DafsStatus::kStale;
  }
  if (mounts->IsFormerRoot(KeyOf(handle))) return DafsStatus::kStale;
  int fd = 0;
  {
    ScopedPrivilege privilege(Privilege::kOverFiles);
    fd = OpenKernelHandle(*fs, KeyOf(handle));
  }
  if (fd < 0) {
    // A genuine handle that no longer leads to an object is stale, whatever error the file system
    // returns.
    const bool resource = fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM;
    return resource ? DafsStatus::kResource : DafsStatus::kStale;
  }
  UniqueFd path(fd);
  struct statx stx;
  if (int error = Statx(fd, &stx); error != 0) return StatusFromErrno(error);
  if (stx.stx_nlink == 0) return DafsStatus::kStale;
  *object = KeepObject(*fs, handle, std::move(path), stx.stx_mode & S_IFMT);
  // Checks again: if OpenExport replaced this root meanwhile, it found nothing in the cache to
  // erase.
  if (!mounts->IsFormerRoot(KeyOf(handle))) return DafsStatus::kOk;
  cache.Erase(KeyOf(handle));
  return DafsStatus::kStale;
}

DafsStatus StoreImpl::ResolveObject(const Caller& caller, const wire::FileHandle& handle,
                                    DafsStatus pseudo_status, ObjectRef* object) {
  Place place;
  STORE_RETURN_IF_NOT_OK(Resolve(caller, handle, &place));
  if (place.pseudo != nullptr) return pseudo_status;
  *object = std::move(place.object);
  return DafsStatus::kOk;
}

DafsStatus StoreImpl::ResolveTargetDir(const Caller& caller, const wire::FileHandle& handle,
                                       ObjectRef* directory) {
  STORE_RETURN_IF_NOT_OK(ResolveObject(caller, handle, DafsStatus::kRofs, directory));
  if (!(*directory)->is_dir()) return DafsStatus::kNotDir;
  return (*directory)->fs().exported->read_only ? DafsStatus::kRofs : DafsStatus::kOk;
}

DafsStatus StoreImpl::Identify(const FileSystem& near, const UniqueFd& path, const FileSystem** fs,
                               ObjectKey* key, ObjectRef* object) {
  KernelHandle handle;
  if (int error = GetKernelHandle(path.get(), "", &handle); error != 0) {
    return error == EOPNOTSUPP ? DafsStatus::kAcces : StatusFromErrno(error);
  }
  *fs = mounts->FindByKernelHandle(near, handle);
  if (*fs == nullptr) return DafsStatus::kAcces;
  *key = MakeKey((*fs)->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length});
  *object = cache.Find(*key);
  if (*object != nullptr) return DafsStatus::kOk;
  *object = opens.FindObject(*key);
  if (*object != nullptr) *object = CacheObject(std::move(*object));
  return DafsStatus::kOk;
}

DafsStatus StoreImpl::Adopt(const FileSystem& near, UniqueFd path, ObjectRef* object,
                            const Caller* keeper) {
  const FileSystem* fs = nullptr;
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(Identify(near, path, &fs, &key, object));
  if (*object != nullptr) return DafsStatus::kOk;
  const bool promised = KeepsStats(keeper) && GivePromise(*keeper, key, kPromisedAttributes);
  struct statx stx;
  if (int error = Statx(path.get(), &stx); error != 0) return StatusFromErrno(error);
  *object = KeepObject(*fs, mac.Seal(key), std::move(path), stx.stx_mode & S_IFMT);
  // Sample 0: it was taken before the object was known, so no modification precedes it.
  if (KeepsStats(keeper)) keeper->recent->Keep(**object, 0, stx, promised);
  return DafsStatus::kOk;
}

ObjectRef StoreImpl::CacheObject(ObjectRef object) {
  ObjectRef cached = cache.Insert(std::move(object));
  if (cached->fs().retired.load()) cache.Erase(cached->key());
  return cached;
}

ObjectRef StoreImpl::KeepObject(const FileSystem& fs, const wire::FileHandle& handle, UniqueFd path,
                                mode_t type) {
  return CacheObject(std::make_shared<Object>(fs, handle, std::move(path), type,
                                              cache.descriptors(), write_verifier->era()));
}

DafsStatus StoreImpl::AdoptNewFile(const FileSystem& near, UniqueFd path, ObjectRef* object) {
  const FileSystem* fs = nullptr;
  ObjectKey key;
  STORE_RETURN_IF_NOT_OK(Identify(near, path, &fs, &key, object));
  if (*object != nullptr) return DafsStatus::kOk;
  *object = KeepObject(*fs, mac.Seal(key), std::move(path), S_IFREG);
  return DafsStatus::kOk;
}

void StoreImpl::ForgetRemoved() {
  if (!forgetting_.TryLock()) return;
  // Objects in a subvolume keep their links when the subvolume is deleted.
  absl::flat_hash_map<const FileSystem*, bool> deleted;
  const auto in_deleted_subvolume = [&](const Object& object) {
    if (object.fs().outer == nullptr) return false;
    const auto [it, added] = deleted.try_emplace(&object.fs(), false);
    if (added) it->second = !OpenRoot(object.fs()).valid() && (errno == ENOENT || errno == ESTALE);
    return it->second;
  };
  for (const ObjectRef& object : cache.Unused(next_part_++ % DescriptorCache::kParts)) {
    struct statx stx;
    const bool removed =
        in_deleted_subvolume(*object) ||
        (statx(object->path_fd(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &stx) == 0 &&
         stx.stx_nlink == 0);
    if (removed && !opens.IsOpen(object->key())) cache.Erase(object->key());
  }
  forgetting_.Unlock();
}

void StoreImpl::RecallRemoved() {
  for (const ObjectKey& key : leases.Removed()) RecallAll(key);
}

void StoreImpl::RecallAll(const ObjectKey& key) {
  delegations.IsFree(key, wire::ClientId(), Delegations::Use::kWrites, nullptr);
}

void StoreImpl::EndLease(const ObjectKey& key) {
  if (leases.End(key)) RecallAll(key);
}

DafsStatus StoreImpl::CheckAlive(Object& object, uint32_t nlink) {
  if (nlink != 0 || opens.FindObject(object.key()) != nullptr) return DafsStatus::kOk;
  cache.Erase(object.key());
  return DafsStatus::kStale;
}

bool StoreImpl::GivePromise(const Caller& caller, const ObjectKey& key, uint8_t what) {
  return caller.promisee != 0 && promises.Give(key, caller.promisee, what) == what;
}

DafsStatus StoreImpl::Announce(const Caller& caller, std::initializer_list<AnnouncedChange> changes,
                               absl::FunctionRef<DafsStatus()> refusal) {
  bool may_change = true;
  for (const AnnouncedChange& change : changes) {
    if (caller.changing != nullptr) {
      may_change = caller.changing->Begin(change.key, change.what, change.name) && may_change;
    }
    if (change.what == kPromisedAttributes &&
        AwaitDelegations(caller, change.key, Delegations::Use::kWrites) != DafsStatus::kOk) {
      may_change = false;
    }
    const Object* directory = change.directory;
    if (directory != nullptr && directory->fs().exported->only_clients_change &&
        caller.promises != nullptr) {
      *caller.promises |= wire::kSpcondOnlyClients;  // together with kSpcondNames
    }
  }
  if (may_change) return DafsStatus::kOk;
  for (const AnnouncedChange& change : changes) {
    if (change.directory != nullptr &&
        faccessat(change.directory->path_fd(), "", W_OK | X_OK, AT_EMPTY_PATH | AT_EACCESS) != 0) {
      return StatusFromErrno();
    }
  }
  STORE_RETURN_IF_NOT_OK(refusal());
  return DafsStatus::kDelay;
}

void StoreImpl::AnnounceNew(const Caller& caller, const ObjectKey& key) {
  if (caller.changing != nullptr) caller.changing->Begin(key, kPromisedAttributes);
}

DafsStatus StoreImpl::GetAttributes(Object& object, uint64_t bitmap,
                                    wire::FileAttributes* attributes) {
  const uint64_t sample = object.change().Sample();
  struct statx stx;
  if (int error = Statx(object.path_fd(), &stx); error != 0) return StatusFromErrno(error);
  return TellAttributes(object, sample, stx, bitmap, attributes);
}

DafsStatus StoreImpl::TellAttributes(Object& object, uint64_t sample, const struct statx& stx,
                                     uint64_t bitmap, wire::FileAttributes* attributes) {
  STORE_RETURN_IF_NOT_OK(CheckAlive(object, stx.stx_nlink));
  const bool hidden_link =
      object.is_dir() ? OrphansOf(object.fs()).IsIn(object.fs(), stx.stx_ino) : object.orphaned();
  FillAttributes(stx, bitmap, object.change().Value(CtimeNs(stx), sample), object.handle(),
                 hidden_link, attributes);
  attributes->file_id = FileIdOf(object.fs(), stx);
  if ((bitmap & wire::kFattrNamedAttr) != 0) {
    attributes->named_attr = SupportsXattrs(object);
    attributes->valid |= wire::kFattrNamedAttr;
  }
  // Links have no ACL. An ACL that exists but cannot be read is an error (6.5.13-02).
  if ((bitmap & wire::kFattrAcl) != 0 && object.type() != S_IFLNK) {
    STORE_RETURN_IF_NOT_OK(GetAcl(object, stx.stx_mode, &attributes->acl));
    attributes->valid |= wire::kFattrAcl;
  }
  return DafsStatus::kOk;
}

void StoreImpl::GetPseudoAttributes(const PseudoNode& node, uint64_t bitmap,
                                    wire::FileAttributes* attributes) {
  struct statx stx = {};
  stx.stx_mask = STATX_BASIC_STATS | STATX_BTIME;
  stx.stx_mode = S_IFDIR | 0555;
  stx.stx_nlink = static_cast<uint32_t>(2 + node.children.size());
  stx.stx_ino = node.file_id;
  stx.stx_atime.tv_sec = node.made_ns / 1'000'000'000;
  stx.stx_atime.tv_nsec = static_cast<uint32_t>(node.made_ns % 1'000'000'000);
  stx.stx_btime = stx.stx_ctime = stx.stx_mtime = stx.stx_atime;
  FillAttributes(stx, bitmap, CtimeNs(stx), node.handle, false, attributes);
  attributes->valid |= bitmap & wire::kFattrNamedAttr;  // valid, with the value false
}

}  // namespace dafs::server
