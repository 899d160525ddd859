#include "server/store/parts/named_attributes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/store/access/act_as.h"
#include "server/store/attributes/attributes.h"
#include "server/store/attributes/xattrs.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/identity.h"
#include "wire/messages/attributes.h"
#include "wire/messages/namespace.h"
#include "wire/messages/open_close.h"

namespace dafs::server {

using wire::DafsStatus;

// --- Handles ----------------------------------------------------------------------------------

NameHash NamedAttributes::HashOf(const std::string& name) {
  const NameHash hash = store_.mac.Identify(absl::StrCat("named attribute ", name));
  names_.Insert(hash, name);
  return hash;
}

wire::FileHandle NamedAttributes::HandleOf(const Object& object, const std::string& name) {
  return store_.mac.Seal(NamedAttrKey(object.key(), HashOf(name)));
}

DafsStatus NamedAttributes::NameOf(const Object& object, const NameHash& hash, std::string* name) {
  *name = names_.Find(hash);
  if (!name->empty()) return DafsStatus::kOk;
  std::vector<std::string> all;
  {
    ScopedPrivilege privilege;  // the name reveals nothing about access to the value
    STORE_RETURN_IF_NOT_OK(ListXattrs(object, wire::NameRule::kBytes, &all));
  }
  for (std::string& one : all) {
    if (HashOf(one) == hash) *name = std::move(one);
  }
  return name->empty() ? DafsStatus::kStale : DafsStatus::kOk;
}

DafsStatus NamedAttributes::ObjectHandle(const wire::FileHandle& handle, wire::FileHandle* object) {
  if (!store_.mac.Verify(handle)) return DafsStatus::kBadHandle;
  *object = store_.mac.Seal(ObjectKeyOf(KeyOf(handle)));
  return DafsStatus::kOk;
}

DafsStatus NamedAttributes::Resolve(const Caller& caller, const wire::FileHandle& filehandle,
                                    Target* target) {
  wire::FileHandle object;
  STORE_RETURN_IF_NOT_OK(ObjectHandle(filehandle, &object));
  STORE_RETURN_IF_NOT_OK(
      store_.handles.ResolveObject(caller, object, DafsStatus::kNotSupp, &target->object));
  const ObjectKey key = KeyOf(filehandle);
  target->name.clear();
  if (KindOf(key) == HandleKind::kNamedAttr) {
    STORE_RETURN_IF_NOT_OK(NameOf(*target->object, NameHashOf(key), &target->name));
  }
  return ActAs(caller, *target->object->fs().exported);
}

DafsStatus NamedAttributes::ResolveDirectory(const Caller& caller,
                                             const wire::FileHandle& filehandle,
                                             ObjectRef* object) {
  Target target;
  STORE_RETURN_IF_NOT_OK(Resolve(caller, filehandle, &target));
  *object = std::move(target.object);
  return target.name.empty() ? DafsStatus::kOk : DafsStatus::kNotDir;
}

DafsStatus NamedAttributes::ResolveAttribute(const Caller& caller,
                                             const wire::FileHandle& filehandle, Target* target) {
  STORE_RETURN_IF_NOT_OK(Resolve(caller, filehandle, target));
  return target->name.empty() ? DafsStatus::kIsDir : DafsStatus::kOk;
}

// --- The directory ----------------------------------------------------------------------------

DafsStatus NamedAttributes::OpenDirectory(const Caller& caller, const wire::FileHandle& filehandle,
                                          wire::FileHandle* directory) {
  ObjectRef object;  // an attribute has no attributes of its own: NOTSUPP
  STORE_RETURN_IF_NOT_OK(
      store_.handles.ResolveObject(caller, filehandle, DafsStatus::kNotSupp, &object));
  if (!HasRoomForName(object->key()) || !SupportsXattrs(*object)) return DafsStatus::kNotSupp;
  *directory = store_.mac.Seal(AttrDirKey(object->key()));
  return DafsStatus::kOk;
}

DafsStatus NamedAttributes::Lookup(const Caller& caller, const wire::LookupArgs& args,
                                   wire::LookupRes* res) {
  *res = {};
  if (args.path.empty()) return DafsStatus::kInval;
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(ResolveDirectory(caller, args.directory, &object));
  const std::string& name = args.path.front();
  size_t size = 0;
  STORE_RETURN_IF_NOT_OK(GetXattrSize(*object, name, &size));
  res->filehandle = HandleOf(*object, name);
  res->component_count = 1;
  return args.path.size() == 1 ? DafsStatus::kOk : DafsStatus::kNotDir;
}

DafsStatus NamedAttributes::Lookupp(const Caller& caller, const wire::FileHandle& filehandle,
                                    wire::FileHandle* parent) {
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(ResolveDirectory(caller, filehandle, &object));
  *parent = object->handle();
  return DafsStatus::kOk;
}

DafsStatus NamedAttributes::Remove(const Caller& caller, const wire::RemoveArgs& args,
                                   wire::RemoveRes* res) {
  ObjectRef object;
  STORE_RETURN_IF_NOT_OK(ResolveDirectory(caller, args.filehandle, &object));
  if (object->fs().exported->read_only) return DafsStatus::kRofs;
  // An open does not prevent the removal of an attribute, so opens are not checked (6.5.33-06).
  if (args.remove_mode == wire::RemoveMode::kCheckOpen) return DafsStatus::kDenyDispNotSupp;
  size_t size = 0;
  const NameGuard guard = store_.object_locks.GuardName(*object, args.target);
  // A restarted server must not mistake an absent attribute for one that this request removed.
  const DafsStatus there = GetXattrSize(*object, args.target, &size);
  if (there != DafsStatus::kOk && there != DafsStatus::kAcces) return there;
  STORE_RETURN_IF_NOT_OK(
      store_.announcements.Announce(caller, {AnnouncedChange::OfAttributes(object->key())}));
  ChangeProbe probe(*object);
  RecordIntent(caller, *object, args.target, 0, probe.before());
  const DafsStatus status = RemoveXattr(*object, args.target);
  if (status == DafsStatus::kOk) res->change_info = probe.Modified();
  if (Operation* operation = caller.operation) {
    operation->result().after = res->change_info.after;
    operation->Done(status, object->path_fd());
  }
  return status;
}

void NamedAttributes::RecordIntent(const Caller& caller, const Object& object,
                                   const std::string& name, uint64_t value, uint64_t before) {
  if (caller.operation == nullptr) return;
  Intent& intent = caller.operation->Prepare();
  intent.flags = Intent::kOfAttribute;
  intent.object = object.handle();
  intent.value = value;
  intent.before = before;
  Intent::SetName(intent.name, name);
  caller.operation->Begin();
}

uint64_t NamedAttributes::Identify(const std::string& value) const {
  uint64_t number = 0;
  const NameHash hash = store_.mac.Identify(value);
  std::memcpy(&number, hash.data(), sizeof number);
  return number;
}

// The cookie of an entry is the hash of its name. So a listing continues at the right place after
// any creation or removal, and after a restart.
DafsStatus NamedAttributes::Readdir(const Caller& caller, const ReaddirRequest& request,
                                    ReaddirSink sink, ReaddirResult* res) {
  constexpr uint64_t kFirstCookie = 3;  // 0, 1 and 2 are never the cookie of an entry
  *res = {};
  Target target;
  STORE_RETURN_IF_NOT_OK(ResolveDirectory(caller, request.filehandle, &target.object));
  res->cookieverf.bytes.fill(1);  // constant: the cookies never become invalid
  if (request.cookie != 0 &&
      (request.cookieverf != res->cookieverf || request.cookie < kFirstCookie)) {
    return DafsStatus::kBadCookie;
  }
  std::vector<std::string> names;
  STORE_RETURN_IF_NOT_OK(ListXattrs(*target.object, caller.names, &names));
  std::vector<std::pair<uint64_t, std::string>> entries;
  for (std::string& name : names) {
    uint64_t cookie = 0;
    const NameHash hash = HashOf(name);
    std::memcpy(&cookie, hash.data(), sizeof cookie);
    cookie = std::max(cookie, kFirstCookie);
    if (cookie > request.cookie) entries.emplace_back(cookie, std::move(name));
  }
  std::sort(entries.begin(), entries.end());
  bool any = false;
  for (auto& [cookie, name] : entries) {
    target.name = name;
    wire::FileAttributes attributes;
    const wire::FileHandle handle = HandleOf(*target.object, name);
    if (Describe(caller, target, handle, request.attr_request_bitmap, &attributes) !=
        DafsStatus::kOk) {
      attributes = {};
      attributes.included = request.attr_request_bitmap & wire::kFattrAll;
    }
    if (!sink(cookie, name, attributes)) {
      return any ? DafsStatus::kOk : DafsStatus::kReaddirNoSpc;
    }
    any = true;
  }
  res->eof = true;
  return DafsStatus::kOk;
}

// The same for the directory and the attributes in it. As for user.* on most file systems, reading
// needs read permission on the object, and changing needs write permission.
DafsStatus NamedAttributes::Access(const Caller& caller, const wire::AccessArgs& args,
                                   wire::AccessRes* res) {
  *res = {};
  if ((args.access & ~wire::kAccessAll) != 0) return DafsStatus::kInval;
  Target target;
  STORE_RETURN_IF_NOT_OK(Resolve(caller, args.filehandle, &target));
  const auto check = [&](int permission, uint32_t bits) {
    res->supported |= args.access & bits;
    if (faccessat(target.object->path_fd(), "", permission, AT_EMPTY_PATH | AT_EACCESS) == 0) {
      res->access |= args.access & bits;
    }
  };
  check(R_OK, wire::kAccessRead | (target.name.empty() ? wire::kAccessLookup : 0));
  check(W_OK, wire::kAccessModify | wire::kAccessExtend);
  return DafsStatus::kOk;
}

// --- Attributes of attributes -----------------------------------------------------------------

// They belong to their object and share its owner, times and CHANGE.
DafsStatus NamedAttributes::Describe(const Caller& caller, const Target& target,
                                     const wire::FileHandle& handle, uint64_t bitmap,
                                     wire::FileAttributes* attributes) {
  const bool directory = target.name.empty();
  size_t size = 0;
  if (!directory) {  // for any bitmap: the attribute may no longer exist
    DafsStatus status = GetXattrSize(*target.object, target.name, &size);
    if (status == DafsStatus::kNoEnt) {
      // An attribute that the client's own OPEN is creating: the handle from that OPEN is valid at
      // once.
      const std::optional<size_t> opened = opens_.SizeOf(caller.client_id, KeyOf(handle));
      status = opened.has_value() ? DafsStatus::kOk : DafsStatus::kStale;
      size = opened.value_or(0);
    }
    STORE_RETURN_IF_NOT_OK(status);
  }
  STORE_RETURN_IF_NOT_OK(
      store_.object_attributes.GetAttributes(*target.object, bitmap, attributes));
  wire::FileAttributes& a = *attributes;
  a.valid &= ~wire::kFattrAcl;
  a.acl.clear();
  a.named_attr = false;
  a.object_type = directory ? wire::ObjectType::kAttrDir : wire::ObjectType::kNamedAttr;
  a.mode &= 0666;
  if (directory) a.mode |= (a.mode & 0444) >> 2;  // search permission follows read permission
  a.num_links = 1;
  a.object_size = a.space_used = size;
  if (!directory) {
    const NameHash hash = HashOf(target.name);
    std::memcpy(&a.file_id, hash.data(), sizeof a.file_id);
  }
  a.raw_dev = {};
  if (a.has(wire::kFattrFilehandle)) a.filehandle = handle;
  return DafsStatus::kOk;
}

DafsStatus NamedAttributes::Getattr(const Caller& caller, const wire::FileHandle& filehandle,
                                    uint64_t bitmap, wire::FileAttributes* attributes) {
  *attributes = {};
  Target target;
  STORE_RETURN_IF_NOT_OK(Resolve(caller, filehandle, &target));
  return Describe(caller, target, filehandle, bitmap, attributes);
}

// Only the size can be set.
DafsStatus NamedAttributes::Setattr(const Caller& caller, const wire::FileHandle& filehandle,
                                    const wire::StateId& state_id,
                                    const wire::FileAttributes& attributes, uint64_t* bitmap) {
  *bitmap = 0;
  if (!store_.mac.Verify(filehandle)) return DafsStatus::kBadHandle;
  if ((attributes.valid & ~wire::kFattrObjectSize) != 0) return DafsStatus::kInval;
  if (attributes.valid == 0) return DafsStatus::kOk;
  const uint64_t size = attributes.object_size;
  const auto resize = [&](std::string& value) {
    if (size > kXattrMost) return DafsStatus::kFbig;
    value.resize(size);
    return DafsStatus::kOk;
  };
  if (!state_id.is_zero()) {
    STORE_RETURN_IF_NOT_OK(ModifyOpen(caller, filehandle, state_id, [&](AttributeOpen& open) {
      if (size == 0) open.known = true;
      return open.known ? resize(open.value) : DafsStatus::kAcces;
    }));
  } else {
    Target target;
    STORE_RETURN_IF_NOT_OK(ResolveAttribute(caller, filehandle, &target));
    STORE_RETURN_IF_NOT_OK(Modify(caller, target, resize));
  }
  *bitmap = wire::kFattrObjectSize;
  return DafsStatus::kOk;
}

}  // namespace dafs::server
