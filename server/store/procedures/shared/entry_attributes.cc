#include "server/store/procedures/shared/entry_attributes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <utility>
#include <vector>

#include "server/store/attributes/acl.h"
#include "server/store/attributes/attributes.h"
#include "server/store/system/statx.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// These need a handle of the object, or the object.
constexpr uint64_t kNeedHandle = wire::kFattrFilehandle | wire::kFattrChange | wire::kFattrNumLinks;

int StatOfName(int directory, const char* name, unsigned extra, struct statx* stx) {
  return statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
               STATX_BASIC_STATS | STATX_BTIME | extra, stx);
}

}  // namespace

EntryAttributes::EntryAttributes(StoreParts& store, Object& directory, uint64_t bitmap,
                                 AnswerPromises& promises)
    : store_(store), directory_(directory), bitmap_(bitmap), promises_(promises) {
  if ((bitmap & wire::kFattrAcl) != 0) here_.emplace(directory.path_fd());
}

void EntryAttributes::Read(const dirent64& entry, wire::FileAttributes* attributes) {
  if (FromEntryAlone(entry, attributes)) return;
  attributes->included = bitmap_ & wire::kFattrAll;
  if ((bitmap_ & kFattrReadable) == 0) return;
  const bool by_handle = (bitmap_ & kNeedHandle) != 0;
  const bool acl = (bitmap_ & wire::kFattrAcl) != 0;
  const bool acl_by_name = by_handle && here_.has_value() && here_->entered();
  if ((bitmap_ & wire::kFattrNamedAttr) != 0 || (acl && !acl_by_name)) {
    FromObject(entry.d_name, attributes);
  } else if (by_handle) {
    FromHandle(entry.d_name, attributes);
  } else {
    promises_.NoAttributes();  // only a handle identifies the object
    FromStat(entry.d_name, attributes);
  }
}

// Takes type and number from the entry itself. Not for directories, on which a file system may be
// mounted. Not on an overlay, where the entry does not contain its layer.
bool EntryAttributes::FromEntryAlone(const dirent64& entry,
                                     wire::FileAttributes* attributes) const {
  constexpr uint64_t kThere = wire::kFattrObjectType | wire::kFattrFileId;
  if ((bitmap_ & kFattrReadable & ~kThere) != 0 || directory_.fs().layered ||
      entry.d_type == DT_UNKNOWN || entry.d_type == DT_DIR) {
    return false;
  }
  promises_.NoAttributes();
  attributes->included = bitmap_ & wire::kFattrAll;
  attributes->valid = bitmap_ & kThere;
  attributes->object_type = ObjectTypeOf(static_cast<mode_t>(DTTOIF(entry.d_type)));
  attributes->file_id = entry.d_ino;
  return true;
}

void EntryAttributes::FromStat(const char* name, wire::FileAttributes* attributes) const {
  struct statx stx;
  if (StatOfName(directory_.path_fd(), name, STATX_MNT_ID, &stx) != 0) return;
  FillAttributes(stx, bitmap_, 0, {}, false, attributes);
  attributes->file_id = FileIdOf(directory_.fs(), stx);
  // Without its FSHandle, the number would seem to belong to the directory's file system.
  if (!IsIn(directory_.fs(), stx)) attributes->valid &= ~wire::kFattrFileId;
}

// Uses what the store knows of the object, if it is in use.
void EntryAttributes::FromHandle(const char* name, wire::FileAttributes* attributes) {
  KernelHandle before;
  if (GetKernelHandle(directory_.path_fd(), name, &before) != 0) return;
  const FileSystem* fs = store_.mounts->FindByKernelHandle(directory_.fs(), before);
  if (fs == nullptr) return;
  const ObjectKey key =
      MakeKey(fs->fshandle, HandleKind::kFile, before.type, {before.bytes, before.length});
  promises_.Attributes(*fs, key);
  ObjectRef object = store_.cache.Find(key);
  if (object == nullptr) object = store_.opens.FindObject(key);
  const uint64_t sample = object != nullptr ? object->change().Sample() : 0;
  struct statx stx;
  const int error = object != nullptr ? Statx(object->path_fd(), &stx)
                                      : StatOfName(directory_.path_fd(), name, 0, &stx);
  if (error != 0) return;
  const bool acl = (bitmap_ & wire::kFattrAcl) != 0;
  std::vector<wire::Ace> aces;
  const bool has_acl = acl && GetAclOfEntry(name, stx.stx_mode, &aces) == DafsStatus::kOk;
  // Attributes that are read by name, one after the other, belong together only if the name led to
  // the same object before and after.
  if ((object == nullptr || acl) && !LeadsTo(name, before)) return;
  const uint64_t others = bitmap_ & ~wire::kFattrAcl;
  if (object == nullptr) {
    const uint64_t change = store_.cache.ChangeOf(key, store_.write_verifier->era(), CtimeNs(stx));
    FillAttributes(stx, others, change, store_.mac.Seal(key), false, attributes);
    attributes->file_id = FileIdOf(*fs, stx);
  } else if (store_.object_attributes.GetAttributesFrom(*object, sample, stx, others, attributes) !=
             DafsStatus::kOk) {
    attributes->valid = 0;
  }
  attributes->included = bitmap_ & wire::kFattrAll;
  if (has_acl && attributes->valid != 0) {
    attributes->acl = std::move(aces);
    attributes->valid |= wire::kFattrAcl;
  }
}

void EntryAttributes::FromObject(const char* name, wire::FileAttributes* attributes) {
  ObjectRef object;
  DafsStatus status = store_.lookups.LookupName(directory_, name, &object);
  if (status == DafsStatus::kOk) {
    promises_.Attributes(object->fs(), object->key());
    status = store_.object_attributes.GetAttributes(*object, bitmap_, attributes);
  }
  if (status != DafsStatus::kOk) {
    *attributes = {};
    attributes->included = bitmap_ & wire::kFattrAll;
  }
}

// Returns true if `name` still leads to the object with this handle.
bool EntryAttributes::LeadsTo(const char* name, const KernelHandle& before) const {
  KernelHandle now;
  return GetKernelHandle(directory_.path_fd(), name, &now) == 0 &&
         now.mount_id == before.mount_id && now.type == before.type &&
         now.length == before.length && std::memcmp(now.bytes, before.bytes, before.length) == 0;
}

}  // namespace dafs::server
