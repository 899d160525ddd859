// Finding objects: GET_ROOT_HANDLE, LOOKUP, LOOKUPP, OPENATTR, READLINK.
// Spec: 6.5.12, 6.5.21, 6.5.22, 6.5.25, 6.5.31.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <thread>

#include "runtime/unique_fd.h"
#include "server/store/answer_promises.h"
#include "server/store/attributes/attributes.h"
#include "server/store/store_impl.h"
#include "server/store/system/errno_status.h"
#include "wire/messages/namespace.h"
#include "wire/protocol/header.h"

namespace dafs::server {

using wire::DafsStatus;

// Finding a cached object costs one system call, name_to_handle_at. With it the kernel checks that
// the caller may search the directory.
DafsStatus StoreImpl::LookupName(Object& directory, const std::string& name, ObjectRef* child,
                                 const Caller* keeper) {
  if (name == "." || name == "..") return DafsStatus::kNoEnt;  // R63
  if (IsReserved(directory, name)) return DafsStatus::kNoEnt;
  KernelHandle handle;
  if (int error = GetKernelHandle(directory.path_fd(), name.c_str(), &handle); error != 0) {
    return error == EOPNOTSUPP ? DafsStatus::kAcces : StatusFromErrno(error);
  }
  const FileSystem* fs = mounts->FindByKernelHandle(directory.fs(), handle);
  if (fs == nullptr) return DafsStatus::kAcces;  // a mounted file system that cannot be served
  *child = cache.Find(
      MakeKey(fs->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length}));
  if (*child != nullptr) return DafsStatus::kOk;
  UniqueFd path(openat(directory.path_fd(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!path.valid()) return StatusFromErrno();
  return Adopt(*fs, std::move(path), child, keeper);
}

// Sets *alive to whether the object has a link or is open.
DafsStatus StoreImpl::LookupOnce(Object& directory, const std::string& name, ObjectRef* child,
                                 const Caller* keeper, bool* alive) {
  STORE_RETURN_IF_NOT_OK(LookupName(directory, name, child, keeper));
  Object& found = **child;
  const bool keeps = KeepsStats(keeper);
  if (keeps) {
    const auto* known = keeper->recent->Find(found.handle());
    *alive = known != nullptr && known->stx.stx_nlink != 0;
    if (*alive) return DafsStatus::kOk;
  }
  const bool promised = keeps && GivePromise(*keeper, found.key(), kPromisedAttributes);
  const uint64_t sample = found.change().Sample();
  struct statx stx;
  if (int error = Statx(found.path_fd(), &stx); error != 0) return StatusFromErrno(error);
  if (keeps) keeper->recent->Keep(found, sample, stx, promised);
  *alive = stx.stx_nlink != 0 || opens.FindObject(found.key()) != nullptr;
  return DafsStatus::kOk;
}

// The kernel finds a name until its removal has returned, but no longer counts it as a link. A
// removal by a client holds the NameGuard, so none is under way while this holds it. A removal by a
// local program ends within moments, so this retries.
DafsStatus StoreImpl::LookupLiving(Object& directory, const std::string& name, ObjectRef* child,
                                   const Caller* keeper) {
  constexpr int kTries = 8;
  constexpr auto kFirstWait = std::chrono::microseconds(10);  // doubled each time: 0.6 ms in total
  bool alive = false;
  STORE_RETURN_IF_NOT_OK(LookupOnce(directory, name, child, keeper, &alive));
  for (int tries = 2; !alive && tries <= kTries; ++tries) {  // some file systems count no links
    if (tries > 2) std::this_thread::sleep_for(kFirstWait * (1 << (tries - 3)));
    const NameGuard guard = GuardName(directory, name);
    STORE_RETURN_IF_NOT_OK(LookupOnce(directory, name, child, keeper, &alive));
  }
  return DafsStatus::kOk;
}

DafsStatus StoreImpl::LookupStep(const Caller& caller, const Place& directory,
                                 const std::string& name, Place* child, AnswerPromises* promises) {
  if (directory.pseudo != nullptr) {
    auto it = directory.pseudo->children.find(name);
    if (it == directory.pseudo->children.end()) return DafsStatus::kNoEnt;
    const PseudoNode& node = *it->second;
    if (node.export_index >= 0) {
      const auto index = static_cast<size_t>(node.export_index);
      const Export& exported = exports[index];
      STORE_RETURN_IF_NOT_OK(exported.Admission(caller.peer));
      if (promises != nullptr) promises->DependsOn(exported);
      if (const DafsStatus status = FollowPath(index); status != DafsStatus::kOk) {
        if (promises != nullptr) promises->NoNames();  // its path may lead to a directory later
        return status;
      }
      return Resolve(caller, mounts->Root(index)->handle, child);
    }
    STORE_RETURN_IF_NOT_OK(AdmissionBelow(caller, node));
    *child = {&node, nullptr};
    return DafsStatus::kOk;
  }
  Object& object = *directory.object;
  if (object.type() == S_IFLNK) return DafsStatus::kSymlink;
  if (!object.is_dir()) return DafsStatus::kNotDir;
  STORE_RETURN_IF_NOT_OK(Enter(caller, *object.fs().exported));
  child->pseudo = nullptr;
  if (promises != nullptr) promises->Names(object);
  STORE_RETURN_IF_NOT_OK(LookupLiving(object, name, &child->object, &caller));
  return CheckFence(caller, child->object->key());
}

DafsStatus StoreImpl::Walk(const Caller& caller, std::span<const std::string> path, Place* place,
                           uint32_t* count, AnswerPromises* promises) {
  *count = 0;
  for (const std::string& name : path) {
    Place child;
    STORE_RETURN_IF_NOT_OK(LookupStep(caller, *place, name, &child, promises));
    *place = std::move(child);
    ++*count;
  }
  return DafsStatus::kOk;
}

DafsStatus Store::GetRootHandle(const Caller& caller, wire::FileHandle* root) {
  const PseudoNode& node = impl_->pseudo().root();
  if (node.export_index < 0) {
    *root = node.handle;
  } else {
    const auto index = static_cast<size_t>(node.export_index);
    STORE_RETURN_IF_NOT_OK(impl_->AdmissionBelow(caller, node));
    if (impl_->openings.IsOpening(index)) return DafsStatus::kDelay;
    // This runs on the worker, so it must not access an export that may hang.
    if (!impl_->mounts->MayHang(index)) STORE_RETURN_IF_NOT_OK(impl_->FollowPath(index));
    const ExportRoot* top = impl_->mounts->Root(index);
    if (top == nullptr) return DafsStatus::kAcces;
    *root = top->handle;
    return DafsStatus::kOk;
  }
  return impl_->AdmissionBelow(caller, node);
}

namespace {

struct Admitting {
  size_t exports = 0;
  size_t squash_all = 0;
};

void CountBelow(const StoreImpl& store, const Caller& caller, const PseudoNode& node,
                Admitting* count) {
  for (const auto& [name, child] : node.children) CountBelow(store, caller, *child, count);
  if (node.export_index < 0) return;
  const Export& exported = store.exports[static_cast<size_t>(node.export_index)];
  if (!exported.Admits(caller.peer)) return;
  ++count->exports;
  if (exported.squash == Squash::kAll) ++count->squash_all;
}

}  // namespace

DafsStatus Store::WhoIsSquashed(const Caller& caller, const wire::FileHandle& filehandle,
                                Squashes* squashes) {
  Place place;
  STORE_RETURN_IF_NOT_OK(impl_->ResolveUnfenced(caller, filehandle, &place));
  Admitting count;
  if (place.pseudo != nullptr) {
    CountBelow(*impl_, caller, *place.pseudo, &count);
  } else {
    count = {1, place.object->fs().exported->squash == Squash::kAll ? 1u : 0u};
  }
  *squashes = count.squash_all == 0               ? Squashes::kNobody
              : count.squash_all == count.exports ? Squashes::kEverybody
                                                  : Squashes::kEverybodyInSome;
  return DafsStatus::kOk;
}

std::optional<std::string> Store::PathAboveExports(const wire::FileHandle& handle) const {
  const PseudoNode* node = impl_->pseudo().Find(handle);
  if (node == nullptr) return std::nullopt;
  return node->path;
}

DafsStatus Store::Lookup(const Caller& caller, const wire::LookupArgs& args, wire::LookupRes* res) {
  if (IsOfAttributes(args.directory)) return impl_->attributes.Lookup(caller, args, res);
  *res = {};
  if (args.path.empty()) return DafsStatus::kInval;
  Place place;
  STORE_RETURN_IF_NOT_OK(impl_->Resolve(caller, args.directory, &place));
  AnswerPromises promises(*impl_, caller);
  const DafsStatus status =
      impl_->Walk(caller, args.path, &place, &res->component_count, &promises);
  if (res->component_count > 0) res->filehandle = place.handle();
  const bool is_told = status == DafsStatus::kOk || status == DafsStatus::kNoEnt;
  if (is_told) promises.Report(wire::kSpcondNames);
  return status;
}

namespace {

// Whether `directory` is `top` or lies below it. A directory that was moved out of its export keeps
// its handle, but the client must not see its parents.
bool IsBeneath(int directory, int top) {
  constexpr int kMostLevels = PATH_MAX / 2;
  struct statx end, here, above;
  constexpr unsigned kMask = STATX_INO | STATX_MNT_ID;
  const auto same = [](const struct statx& a, const struct statx& b) {
    return a.stx_ino == b.stx_ino && a.stx_dev_major == b.stx_dev_major &&
           a.stx_dev_minor == b.stx_dev_minor && a.stx_mnt_id == b.stx_mnt_id;
  };
  if (statx(top, "", AT_EMPTY_PATH, kMask, &end) != 0 ||
      statx(directory, "", AT_EMPTY_PATH, kMask, &here) != 0) {
    return false;
  }
  UniqueFd at(openat(directory, ".", O_PATH | O_CLOEXEC));
  for (int level = 0; level < kMostLevels && at.valid(); ++level) {
    if (same(here, end)) return true;
    UniqueFd up(openat(at.get(), "..", O_PATH | O_CLOEXEC));
    if (!up.valid() || statx(up.get(), "", AT_EMPTY_PATH, kMask, &above) != 0) return false;
    if (same(above, here)) return false;  // the root of the machine
    here = above;
    at = std::move(up);
  }
  return false;
}

}  // namespace

DafsStatus Store::Lookupp(const Caller& caller, const wire::FileHandle& filehandle,
                          wire::FileHandle* parent) {
  if (IsOfAttributes(filehandle)) return impl_->attributes.Lookupp(caller, filehandle, parent);
  Place place;
  STORE_RETURN_IF_NOT_OK(impl_->Resolve(caller, filehandle, &place));
  const PseudoNode* above = nullptr;
  bool is_root = false;
  if (place.pseudo != nullptr) {
    is_root = true;
    above = place.pseudo->parent;
  } else if (!place.object->is_dir()) {
    return DafsStatus::kNotDir;
  } else if (const size_t index = place.object->fs().export_index;
             place.object->handle() == impl_->mounts->Root(index)->handle) {
    is_root = true;
    const PseudoNode* leaf = impl_->pseudo().Leaf(index);
    if (leaf == nullptr) return DafsStatus::kStale;  // removed meanwhile
    above = leaf->parent;
  }
  if (is_root) {
    if (above == nullptr) return DafsStatus::kNoEnt;
    *parent = above->handle;
    return DafsStatus::kOk;
  }
  Object& object = *place.object;
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *object.fs().exported));
  UniqueFd up(openat(object.path_fd(), "..", O_PATH | O_CLOEXEC));
  if (!up.valid()) return StatusFromErrno();
  {
    ScopedPrivilege privilege;
    const FileSystem& top = *impl_->mounts->Root(object.fs().export_index)->top;
    if (!IsBeneath(up.get(), top.root.get())) return DafsStatus::kNoEnt;
  }
  ObjectRef result;
  STORE_RETURN_IF_NOT_OK(impl_->Adopt(object.fs(), std::move(up), &result));
  *parent = result->handle();
  return DafsStatus::kOk;
}

DafsStatus Store::Openattr(const Caller& caller, const wire::FileHandle& filehandle,
                           wire::FileHandle* directory) {
  return impl_->attributes.OpenDirectory(caller, filehandle, directory);
}

DafsStatus Store::Readlink(const Caller& caller, const wire::FileHandle& filehandle,
                           std::string* link) {
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(impl_->ResolveObject(caller, filehandle, DafsStatus::kInval, &object));
  if (object->type() != S_IFLNK) return DafsStatus::kInval;
  char buffer[PATH_MAX];  // the kernel stores at most this
  const ssize_t n = readlinkat(object->path_fd(), "", buffer, sizeof buffer);
  if (n < 0) return StatusFromErrno();
  link->assign(buffer, static_cast<size_t>(n));
  return DafsStatus::kOk;
}

}  // namespace dafs::server
