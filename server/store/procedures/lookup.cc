// Finding objects: GET_ROOT_HANDLE, LOOKUP, LOOKUPP, OPENATTR, READLINK.
// Spec: 6.5.12, 6.5.21, 6.5.22, 6.5.25, 6.5.31.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <thread>

#include "runtime/files/unique_fd.h"
#include "server/store/access/act_as.h"
#include "server/store/access/answer_promises.h"
#include "server/store/attributes/attributes.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/identity.h"
#include "wire/messages/namespace.h"
#include "wire/protocol/header.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus NameProcedures::GetRootHandle(const Caller& caller, wire::FileHandle* root) {
  const PseudoNode& node = store_.pseudo_tree.Get().root();
  if (node.export_index < 0) {
    *root = node.handle;
  } else {
    const auto index = static_cast<size_t>(node.export_index);
    STORE_RETURN_IF_NOT_OK(store_.pseudo_tree.AdmissionBelow(caller, node));
    if (store_.openings.IsOpening(index)) return DafsStatus::kDelay;
    // This runs on the worker, so it must not access an export that may hang.
    if (!store_.mounts->MayHang(index))
      STORE_RETURN_IF_NOT_OK(store_.directories.FollowPath(index));
    const ExportRoot* top = store_.mounts->Root(index);
    if (top == nullptr) return DafsStatus::kAcces;
    *root = top->handle;
    return DafsStatus::kOk;
  }
  return store_.pseudo_tree.AdmissionBelow(caller, node);
}

namespace {

struct Admitting {
  size_t exports = 0;
  size_t squash_all = 0;
};

void CountBelow(const StoreParts& store, const Caller& caller, const PseudoNode& node,
                Admitting* count) {
  for (const auto& [name, child] : node.children) CountBelow(store, caller, *child, count);
  if (node.export_index < 0) return;
  const Export& exported = store.exports[static_cast<size_t>(node.export_index)];
  if (!exported.Admits(caller.peer)) return;
  ++count->exports;
  if (exported.squash == Squash::kAll) ++count->squash_all;
}

}  // namespace

DafsStatus NameProcedures::WhoIsSquashed(const Caller& caller, const wire::FileHandle& filehandle,
                                         Squashes* squashes) {
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.ResolveUnfenced(caller, filehandle, &place));
  Admitting count;
  if (place.pseudo != nullptr) {
    CountBelow(store_, caller, *place.pseudo, &count);
  } else {
    count = {1, place.object->fs().exported->squash == Squash::kAll ? 1u : 0u};
  }
  *squashes = count.squash_all == 0               ? Squashes::kNobody
              : count.squash_all == count.exports ? Squashes::kEverybody
                                                  : Squashes::kEverybodyInSome;
  return DafsStatus::kOk;
}

std::optional<std::string> NameProcedures::PathAboveExports(const wire::FileHandle& handle) const {
  const PseudoNode* node = store_.pseudo_tree.Get().Find(handle);
  if (node == nullptr) return std::nullopt;
  return node->path;
}

DafsStatus NameProcedures::Lookup(const Caller& caller, const wire::LookupArgs& args,
                                  wire::LookupRes* res) {
  if (IsOfAttributes(args.directory)) return store_.attributes.Lookup(caller, args, res);
  *res = {};
  if (args.path.empty()) return DafsStatus::kInval;
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller, args.directory, &place));
  AnswerPromises promises(store_.announcements, caller);
  const DafsStatus status =
      store_.lookups.Walk(caller, args.path, &place, &res->component_count, &promises);
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

DafsStatus NameProcedures::Lookupp(const Caller& caller, const wire::FileHandle& filehandle,
                                   wire::FileHandle* parent) {
  if (IsOfAttributes(filehandle)) return store_.attributes.Lookupp(caller, filehandle, parent);
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller, filehandle, &place));
  const PseudoNode* above = nullptr;
  bool is_root = false;
  if (place.pseudo != nullptr) {
    is_root = true;
    above = place.pseudo->parent;
  } else if (!place.object->is_dir()) {
    return DafsStatus::kNotDir;
  } else if (const size_t index = place.object->fs().export_index;
             place.object->handle() == store_.mounts->Root(index)->handle) {
    is_root = true;
    const PseudoNode* leaf = store_.pseudo_tree.Get().Leaf(index);
    if (leaf == nullptr) return DafsStatus::kStale;  // removed meanwhile
    above = leaf->parent;
  }
  if (is_root) {
    if (above == nullptr) return DafsStatus::kNoEnt;
    *parent = above->handle;
    return DafsStatus::kOk;
  }
  Object& object = *place.object;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *object.fs().exported));
  UniqueFd up(openat(object.path_fd(), "..", O_PATH | O_CLOEXEC));
  if (!up.valid()) return StatusFromErrno();
  {
    ScopedPrivilege privilege;
    const FileSystem& top = *store_.mounts->Root(object.fs().export_index)->top;
    if (!IsBeneath(up.get(), top.root.get())) return DafsStatus::kNoEnt;
  }
  ObjectRef result;
  STORE_RETURN_IF_NOT_OK(store_.objects.Adopt(object.fs(), std::move(up), &result));
  *parent = result->handle();
  return DafsStatus::kOk;
}

DafsStatus NameProcedures::Openattr(const Caller& caller, const wire::FileHandle& filehandle,
                                    wire::FileHandle* directory) {
  return store_.attributes.OpenDirectory(caller, filehandle, directory);
}

DafsStatus NameProcedures::Readlink(const Caller& caller, const wire::FileHandle& filehandle,
                                    std::string* link) {
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(
      store_.handles.ResolveObject(caller, filehandle, DafsStatus::kInval, &object));
  if (object->type() != S_IFLNK) return DafsStatus::kInval;
  char buffer[PATH_MAX];  // the kernel stores at most this
  const ssize_t n = readlinkat(object->path_fd(), "", buffer, sizeof buffer);
  if (n < 0) return StatusFromErrno();
  link->assign(buffer, static_cast<size_t>(n));
  return DafsStatus::kOk;
}

}  // namespace dafs::server
