// GET_FENCING_LIST, SET_FENCING_LIST, and what a change of a list ends. Spec: 4.4.4, 6.4; WIRE R73
// to R76, R83.
#include "wire/messages/fencing.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/access/act_as.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/fencing_procedures.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/system/identity.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Finds an object of an export whose list `caller` may read or change: its own, as its owner or a
// trusted client; that of its file system, as a trusted client.
DafsStatus ResolveFenced(StoreParts& store, const Caller& caller, Trust trust, bool of_file,
                         const wire::FileHandle& filehandle, ObjectRef* object) {
  if (trust == Trust::kNone && !of_file) return DafsStatus::kNotAuthorized;
  Place place;
  const DafsStatus status = store.handles.ResolveUnfenced(caller, filehandle, &place);
  if (place.object == nullptr) return status != DafsStatus::kOk ? status : DafsStatus::kInval;
  if (trust == Trust::kNone) {
    STORE_RETURN_IF_NOT_OK(ActAs(caller, *place.object->fs().exported));
    if (!ActsAsOwner(*place.object)) return DafsStatus::kNotAuthorized;
  }
  STORE_RETURN_IF_NOT_OK(status);
  *object = std::move(place.object);
  return DafsStatus::kOk;
}

FencedObject ObjectOf(const Object& object, wire::FenceObject kind) {
  return kind == wire::FenceObject::kFile ? FencedObject::File(object.key())
                                          : FencedObject::FileSystem(object.fs().fshandle);
}

}  // namespace

DafsStatus FencingProcedures::GetFencingList(const Caller& caller, Trust trust,
                                             const wire::GetFencingListArgs& args,
                                             wire::GetFencingListRes* res) {
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(ResolveFenced(store_, caller, trust, true, args.filehandle, &object));
  const Fencing& fencing = store_.fencing;
  res->fence_list = fencing.Get(ObjectOf(*object, wire::FenceObject::kFile));
  if (res->fence_list.empty()) {
    res->fence_list = fencing.Get(ObjectOf(*object, wire::FenceObject::kFilesystem));
  }
  return DafsStatus::kOk;
}

DafsStatus FencingProcedures::SetFencingList(const Caller& caller, Trust trust,
                                             const wire::SetFencingListArgs& args) {
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(ResolveFenced(
      store_, caller, trust, args.object == wire::FenceObject::kFile, args.filehandle, &object));
  return store_.fencing.Set(ObjectOf(*object, args.object),
                            {args.access, args.update, args.fence_list});
}

void FencingProcedures::EndFenced(const wire::FileHandle& filehandle, wire::FenceObject kind) {
  RestoreOwnIdentity();
  Fencing& fencing = store_.fencing;
  const ObjectKey key = KeyOf(filehandle);
  const FencedObject object = kind == wire::FenceObject::kFile
                                  ? FencedObject::File(key)
                                  : FencedObject::FileSystem(key.fshandle());
  // Reads by reference look at no list.
  if (kind == wire::FenceObject::kFile) {
    store_.exported.Drop(key);
  } else {
    store_.exported.DropAll();
  }
  const auto contains = [&object](const ObjectKey& file) { return object.Contains(file); };
  for (const auto& delegation : store_.delegations.OfFiles(contains)) {
    if (fencing.Admits(delegation.fence_id, delegation.key)) continue;
    // BC_RECALL makes the client drop its cache. Its unwritten data is refused, so requests of
    // other clients need not wait for it.
    store_.delegations.BeginRecall(delegation.state_id);
    store_.releases.RevokeDelegation(delegation);
  }
  // A client without a session, or without a fence id, may rely on promises as well.
  store_.promise_ends.End([&](const wire::ClientId& client_id) {
    const std::vector<std::string> ids = fencing.sessions().IdsOf(client_id);
    if (ids.empty()) return !fencing.Admits(std::string_view(), key);
    return std::any_of(ids.begin(), ids.end(),
                       [&](const std::string& id) { return !fencing.Admits(id, key); });
  });
}

}  // namespace dafs::server
