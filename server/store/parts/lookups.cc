#include "server/store/parts/lookups.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/files/unique_fd.h"
#include "server/store/access/act_as.h"
#include "server/store/access/locks/fence_check.h"
#include "server/store/access/return_if_not_ok.h"
#include "server/store/durable/journal.h"
#include "server/store/objects/orphans.h"
#include "server/store/objects/recent_stats.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus CheckName(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    return DafsStatus::kInval;
  }
  if (name.size() > Intent::kNameMax) return DafsStatus::kNameTooLong;
  return DafsStatus::kOk;
}

bool Lookups::IsReserved(const Object& directory, std::string_view name) const {
  return name == kOrphanDirectory && store_.mounts->IsRoot(directory.path_fd());
}

DafsStatus Lookups::CheckNotReserved(const Object& directory, std::string_view name) const {
  return IsReserved(directory, name) ? DafsStatus::kAcces : DafsStatus::kOk;
}

// Finding a cached object costs one system call, name_to_handle_at. With it the kernel checks that
// the caller may search the directory.
DafsStatus Lookups::LookupName(Object& directory, const std::string& name, ObjectRef* child,
                               const Caller* keeper) {
  if (name == "." || name == "..") return DafsStatus::kNoEnt;  // R63
  if (IsReserved(directory, name)) return DafsStatus::kNoEnt;
  KernelHandle handle;
  if (int error = GetKernelHandle(directory.path_fd(), name.c_str(), &handle); error != 0) {
    return error == EOPNOTSUPP ? DafsStatus::kAcces : StatusFromErrno(error);
  }
  const FileSystem* fs = store_.mounts->FindByKernelHandle(directory.fs(), handle);
  if (fs == nullptr) return DafsStatus::kAcces;  // a mounted file system that cannot be served
  *child = store_.cache.Find(
      MakeKey(fs->fshandle, HandleKind::kFile, handle.type, {handle.bytes, handle.length}));
  if (*child != nullptr) return DafsStatus::kOk;
  UniqueFd path(openat(directory.path_fd(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!path.valid()) return StatusFromErrno();
  return store_.objects.Adopt(*fs, std::move(path), child, keeper);
}

// Sets *alive to whether the object has a link or is open.
DafsStatus Lookups::LookupOnce(Object& directory, const std::string& name, ObjectRef* child,
                               const Caller* keeper, bool* alive) {
  STORE_RETURN_IF_NOT_OK(LookupName(directory, name, child, keeper));
  Object& found = **child;
  const bool keeps = KeepsStats(keeper);
  if (keeps) {
    const auto* known = keeper->recent->Find(found.handle());
    *alive = known != nullptr && known->stx.stx_nlink != 0;
    if (*alive) return DafsStatus::kOk;
  }
  const bool promised =
      keeps && store_.announcements.GivePromise(*keeper, found.key(), kPromisedAttributes);
  const uint64_t sample = found.change().Sample();
  struct statx stx;
  if (int error = Statx(found.path_fd(), &stx); error != 0) return StatusFromErrno(error);
  if (keeps) keeper->recent->Keep(found, sample, stx, promised);
  *alive = stx.stx_nlink != 0 || store_.opens.FindObject(found.key()) != nullptr;
  return DafsStatus::kOk;
}

// The kernel finds a name until its removal has returned, but no longer counts it as a link. A
// removal by a client holds the NameGuard, so none is under way while this holds it. A removal by a
// local program ends within moments, so this retries.
DafsStatus Lookups::LookupLiving(Object& directory, const std::string& name, ObjectRef* child,
                                 const Caller* keeper) {
  constexpr int kTries = 8;
  constexpr auto kFirstWait = std::chrono::microseconds(10);  // doubled each time: 0.6 ms in total
  bool alive = false;
  STORE_RETURN_IF_NOT_OK(LookupOnce(directory, name, child, keeper, &alive));
  for (int tries = 2; !alive && tries <= kTries; ++tries) {  // some file systems count no links
    if (tries > 2) std::this_thread::sleep_for(kFirstWait * (1 << (tries - 3)));
    const NameGuard guard = store_.object_locks.GuardName(directory, name);
    STORE_RETURN_IF_NOT_OK(LookupOnce(directory, name, child, keeper, &alive));
  }
  return DafsStatus::kOk;
}

DafsStatus Lookups::LookupStep(const Caller& caller, const Place& directory,
                               const std::string& name, Place* child, AnswerPromises* promises) {
  if (directory.pseudo != nullptr) {
    const PseudoNode* found = nullptr;
    STORE_RETURN_IF_NOT_OK(store_.pseudo_tree.Find(caller, *directory.pseudo, name, &found));
    const PseudoNode& node = *found;
    if (node.export_index >= 0) {
      const auto index = static_cast<size_t>(node.export_index);
      const Export& exported = store_.exports[index];
      if (promises != nullptr) promises->DependsOn(exported);
      if (const DafsStatus status = store_.directories.FollowPath(index);
          status != DafsStatus::kOk) {
        if (promises != nullptr) promises->NoNames();  // its path may lead to a directory later
        return status;
      }
      return store_.handles.Resolve(caller, store_.mounts->Root(index)->handle, child);
    }
    *child = {&node, nullptr};
    return DafsStatus::kOk;
  }
  Object& object = *directory.object;
  if (object.type() == S_IFLNK) return DafsStatus::kSymlink;
  if (!object.is_dir()) return DafsStatus::kNotDir;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *object.fs().exported));
  child->pseudo = nullptr;
  if (promises != nullptr) promises->Names(object);
  STORE_RETURN_IF_NOT_OK(LookupLiving(object, name, &child->object, &caller));
  return CheckFence(store_.fencing, caller, child->object->key());
}

DafsStatus Lookups::Walk(const Caller& caller, std::span<const std::string> path, Place* place,
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

}  // namespace dafs::server
