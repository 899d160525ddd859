#include "server/store/access/handle_resolver.h"

#include <optional>
#include <utility>

#include "server/store/access/locks/fence_check.h"
#include "server/store/access/return_if_not_ok.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus HandleResolver::ResolveHandle(const wire::FileHandle& handle, Place* place) {
  const ObjectKey key = KeyOf(handle);
  place->pseudo = nullptr;
  place->object = uses_.cache.Find(key);
  if (place->object != nullptr) {
    if (!SameHandle(place->object->handle(), handle)) return DafsStatus::kBadHandle;
  } else {
    if (!uses_.mac.Verify(handle)) return DafsStatus::kBadHandle;
    if (KindOf(key) == HandleKind::kPseudo) {
      place->pseudo = uses_.pseudo.Get().Find(handle);
      return place->pseudo != nullptr ? DafsStatus::kOk : DafsStatus::kStale;
    }
    if (KindOf(key) != HandleKind::kFile) return DafsStatus::kNotSupp;  // named_attributes.h
    STORE_RETURN_IF_NOT_OK(uses_.objects.Open(handle, &place->object));
  }
  return DafsStatus::kOk;
}

DafsStatus HandleResolver::CheckOpened(const wire::FileHandle& handle) const {
  if (handle.fshandle == uses_.pseudo.Get().fshandle()) return DafsStatus::kOk;
  const std::optional<size_t> index = uses_.mounts.ExportOf(handle.fshandle);
  if (index) return uses_.openings.IsOpening(*index) ? DafsStatus::kDelay : DafsStatus::kOk;
  // The FSHandles of an export are unknown until its path is resolved.
  return uses_.mac.Verify(handle) ? DafsStatus::kDelay : DafsStatus::kBadHandle;
}

DafsStatus HandleResolver::Resolve(const Caller& caller, const wire::FileHandle& handle,
                                   Place* place) {
  STORE_RETURN_IF_NOT_OK(ResolveUnfenced(caller, handle, place));
  if (place->pseudo != nullptr) return DafsStatus::kOk;
  return CheckFence(uses_.fencing, caller, place->object->key());
}

DafsStatus HandleResolver::ResolveUnfenced(const Caller& caller, const wire::FileHandle& handle,
                                           Place* place) {
  if (uses_.openings.any()) STORE_RETURN_IF_NOT_OK(CheckOpened(handle));
  STORE_RETURN_IF_NOT_OK(ResolveHandle(handle, place));
  if (place->pseudo != nullptr) return DafsStatus::kOk;
  return place->object->fs().exported->Admission(caller.peer);
}

DafsStatus HandleResolver::ResolveObject(const Caller& caller, const wire::FileHandle& handle,
                                         DafsStatus pseudo_status, ObjectRef* object) {
  Place place;
  STORE_RETURN_IF_NOT_OK(Resolve(caller, handle, &place));
  if (place.pseudo != nullptr) return pseudo_status;
  *object = std::move(place.object);
  return DafsStatus::kOk;
}

DafsStatus HandleResolver::ResolveTargetDir(const Caller& caller, const wire::FileHandle& handle,
                                            ObjectRef* directory) {
  STORE_RETURN_IF_NOT_OK(ResolveObject(caller, handle, DafsStatus::kRofs, directory));
  if (!(*directory)->is_dir()) return DafsStatus::kNotDir;
  return (*directory)->fs().exported->read_only ? DafsStatus::kRofs : DafsStatus::kOk;
}

}  // namespace dafs::server
