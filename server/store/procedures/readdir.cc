// READDIR. Spec: 6.5.29, 6.5.30; WIRE 9.4, R36, R56; ARCHITECTURE "readdir cookies".
//
// The cookie of an entry is the kernel's position after it, d_off. So a listing continues at the
// right place after any creation or removal, and after a restart. The cookie verifier identifies
// the directory, not its state, and never expires.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/unique_fd.h"
#include "server/store/attributes/acl.h"
#include "server/store/attributes/attributes.h"
#include "server/store/store_impl.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/working_directory.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Cookies 0, 1 and 2 are reserved. Entries at these positions get the three highest numbers.
constexpr uint64_t kLowPositions = 3;

uint64_t CookieOf(int64_t position) {
  const auto p = static_cast<uint64_t>(position);
  return p < kLowPositions ? UINT64_MAX - p : p;
}

int64_t PositionOf(uint64_t cookie) {
  return static_cast<int64_t>(UINT64_MAX - cookie < kLowPositions ? UINT64_MAX - cookie : cookie);
}

wire::Verifier CookieVerifier(const wire::FileHandle& directory) {
  wire::Verifier verifier;  // the last bytes of the handle's MAC
  std::memcpy(verifier.bytes.data(), directory.fileid.bytes.data() + 40, 8);
  verifier.bytes[0] |= 1;  // never zero
  return verifier;
}

// Counts down dircount, a hint for the size of the names and cookies to return.
class Hint {
 public:
  explicit Hint(uint32_t dircount) : left_(dircount == 0 ? UINT32_MAX : dircount) {}
  // Counts an entry. Returns whether the hint is used up.
  bool Count(size_t name_bytes) {
    const size_t bytes = 8 + name_bytes;
    left_ = bytes >= left_ ? 0 : left_ - static_cast<uint32_t>(bytes);
    return left_ == 0;
  }

 private:
  uint32_t left_;
};

// Whether `name` still leads to the object with this handle.
bool LeadsTo(Object& directory, const char* name, const KernelHandle& before) {
  KernelHandle now;
  return GetKernelHandle(directory.path_fd(), name, &now) == 0 && now.mount_id == before.mount_id &&
         now.type == before.type && now.length == before.length &&
         std::memcmp(now.bytes, before.bytes, before.length) == 0;
}

// The attributes of one entry, as the identity entered. If they cannot be read, `valid` stays 0.
// `here`: `directory` is the working directory of the thread.
void EntryAttributes(StoreImpl& store, Object& directory, bool here, const char* name,
                     uint64_t bitmap, wire::FileAttributes* attributes) {
  attributes->included = bitmap & wire::kFattrAll;
  if ((bitmap & kFattrReadable) == 0) return;
  constexpr uint64_t kNeedObject =
      wire::kFattrFilehandle | wire::kFattrChange | wire::kFattrNumLinks;
  const bool acl = (bitmap & wire::kFattrAcl) != 0;
  if ((bitmap & wire::kFattrNamedAttr) != 0 || (acl && (!here || (bitmap & kNeedObject) == 0))) {
    ObjectRef object;
    if (store.LookupName(directory, name, &object) != DafsStatus::kOk ||
        store.GetAttributes(*object, bitmap, attributes) != DafsStatus::kOk) {
      *attributes = {};
      attributes->included = bitmap & wire::kFattrAll;
    }
    return;
  }
  KernelHandle before;
  struct statx stx;
  if ((bitmap & kNeedObject) == 0) {
    if (statx(directory.path_fd(), name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
              STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID, &stx) == 0) {
      FillAttributes(stx, bitmap, 0, {}, false, attributes);
      attributes->file_id = FileIdOf(directory.fs(), stx);
      // Without its FSHandle, the number would seem to belong to the directory's file system.
      if (!IsIn(directory.fs(), stx)) attributes->valid &= ~wire::kFattrFileId;
    }
    return;
  }
  if (GetKernelHandle(directory.path_fd(), name, &before) != 0) return;
  const FileSystem* fs = store.mounts->FindByKernelHandle(directory.fs(), before);
  if (fs == nullptr) return;
  const ObjectKey key =
      MakeKey(fs->fshandle, HandleKind::kFile, before.type, {before.bytes, before.length});
  ObjectRef object = store.cache.Find(key);
  if (object == nullptr) object = store.opens.FindObject(key);
  const uint64_t sample = object != nullptr ? object->change().Sample() : 0;
  const int error = object != nullptr
                        ? Statx(object->path_fd(), &stx)
                        : statx(directory.path_fd(), name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
                                STATX_BASIC_STATS | STATX_BTIME, &stx);
  if (error != 0) return;
  std::vector<wire::Ace> aces;
  const bool has_acl = acl && GetAclOfEntry(name, stx.stx_mode, &aces) == DafsStatus::kOk;
  // Attributes that are read by name, one after the other, belong together only if the name led to
  // the same object before and after.
  if ((object == nullptr || acl) && !LeadsTo(directory, name, before)) return;
  const uint64_t others = bitmap & ~wire::kFattrAcl;
  if (object == nullptr) {
    const uint64_t change = store.cache.ChangeOf(key, store.write_verifier->era(), CtimeNs(stx));
    FillAttributes(stx, others, change, store.mac.Seal(key), false, attributes);
    attributes->file_id = FileIdOf(*fs, stx);
  } else if (store.TellAttributes(*object, sample, stx, others, attributes) != DafsStatus::kOk) {
    attributes->valid = 0;
  }
  attributes->included = bitmap & wire::kFattrAll;
  if (has_acl && attributes->valid != 0) {
    attributes->acl = std::move(aces);
    attributes->valid |= wire::kFattrAcl;
  }
}

// Takes type and number from the entry itself. Not for directories, on which a file system may be
// mounted. Not on an overlay, where the entry does not contain its layer.
bool FromEntryAlone(const FileSystem& fs, const dirent64& entry, uint64_t bitmap,
                    wire::FileAttributes* attributes) {
  constexpr uint64_t kThere = wire::kFattrObjectType | wire::kFattrFileId;
  if ((bitmap & kFattrReadable & ~kThere) != 0 || fs.layered || entry.d_type == DT_UNKNOWN ||
      entry.d_type == DT_DIR) {
    return false;
  }
  attributes->included = bitmap & wire::kFattrAll;
  attributes->valid = bitmap & kThere;
  attributes->object_type = ObjectTypeOf(static_cast<mode_t>(DTTOIF(entry.d_type)));
  attributes->file_id = entry.d_ino;
  return true;
}

bool IsHidden(StoreImpl& store, Object& directory, const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0 ||
         store.IsReserved(directory, name);
}

DafsStatus ListDirectory(StoreImpl& store, const Caller& caller, Object& directory,
                         const ReaddirRequest& request, ReaddirSink sink, ReaddirResult* res) {
  UniqueFd fd(open(FdPath(directory.path_fd()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return StatusFromErrno();
  if (caller.keeps_atime) KeepAtime(fd);
  if (request.cookie != 0 && lseek(fd.get(), PositionOf(request.cookie), SEEK_SET) < 0) {
    return DafsStatus::kBadCookie;
  }
  std::optional<ScopedWorkingDirectory> here;
  if ((request.attr_request_bitmap & wire::kFattrAcl) != 0) here.emplace(directory.path_fd());
  Hint hint(request.dircount);
  bool any = false;
  alignas(dirent64) char buffer[32768];
  for (;;) {
    const long n = syscall(SYS_getdents64, fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINVAL) return DafsStatus::kBadCookie;
    if (n < 0 && errno == ENOENT) return DafsStatus::kStale;  // the directory was removed
    if (n < 0) return StatusFromErrno();
    if (n == 0) {
      res->eof = true;
      return DafsStatus::kOk;
    }
    for (long at = 0; at < n;) {
      const auto& entry = *reinterpret_cast<const dirent64*>(buffer + at);
      at += entry.d_reclen;
      if (IsHidden(store, directory, entry.d_name)) continue;
      wire::FileAttributes attributes;
      if (!FromEntryAlone(directory.fs(), entry, request.attr_request_bitmap, &attributes)) {
        EntryAttributes(store, directory, here.has_value() && here->entered(), entry.d_name,
                        request.attr_request_bitmap, &attributes);
      }
      if (!sink(CookieOf(entry.d_off), entry.d_name, attributes)) {
        return any ? DafsStatus::kOk : DafsStatus::kReaddirNoSpc;
      }
      any = true;
      if (hint.Count(std::strlen(entry.d_name))) return DafsStatus::kOk;
    }
  }
}

// The pseudo file system: children in the order of their names, with consecutive cookies.
DafsStatus ListPseudo(StoreImpl& store, const Caller& caller, const PseudoNode& node,
                      const ReaddirRequest& request, ReaddirSink sink, ReaddirResult* res) {
  uint64_t cookie = kLowPositions - 1;
  Hint hint(request.dircount);
  bool any = false;
  for (const auto& [name, child] : node.children) {
    if (++cookie <= request.cookie) continue;
    // Hides exports that do not admit the client, and directories that lead only to such exports.
    const DafsStatus admission = store.AdmissionBelow(caller, *child);
    res->hides_for_port = res->hides_for_port || admission == DafsStatus::kWrongSec;
    if (admission != DafsStatus::kOk) continue;
    wire::FileAttributes attributes;
    if (child->export_index < 0) {
      store.GetPseudoAttributes(*child, request.attr_request_bitmap, &attributes);
    } else {
      Place place;
      const wire::FileHandle& root = store.roots[static_cast<size_t>(child->export_index)];
      if (store.mounts->ExportThatMayHang(root.fshandle)) {
        // A listing must not wait for an export that may hang, so its attributes are omitted.
        attributes.included = request.attr_request_bitmap & wire::kFattrAll;
      } else if (store.Resolve(caller, root, &place) != DafsStatus::kOk) {
        continue;
      } else if (store.GetAttributes(*place.object, request.attr_request_bitmap, &attributes) !=
                 DafsStatus::kOk) {
        continue;
      }
    }
    if (!sink(cookie, name, attributes)) {
      return any ? DafsStatus::kOk : DafsStatus::kReaddirNoSpc;
    }
    any = true;
    if (hint.Count(name.size())) return DafsStatus::kOk;
  }
  res->eof = true;
  return DafsStatus::kOk;
}

}  // namespace

bool Store::ReaddirMayWait(const wire::FileHandle& filehandle) {
  return !IsOfAttributes(filehandle);
}

DafsStatus Store::Readdir(const Caller& caller, const ReaddirRequest& request, ReaddirSink sink,
                          ReaddirResult* res) {
  *res = {};
  if (IsOfAttributes(request.filehandle)) {
    return impl_->attributes.Readdir(caller, request, sink, res);
  }
  Place place;
  STORE_RETURN_IF_NOT_OK(impl_->Resolve(caller, request.filehandle, &place));
  res->cookieverf = CookieVerifier(place.handle());
  const bool known = request.cookie == 0 || request.cookieverf == res->cookieverf;
  if (!known || request.cookie == 1 || request.cookie == 2) return DafsStatus::kBadCookie;
  if (place.pseudo != nullptr) {
    return ListPseudo(*impl_, caller, *place.pseudo, request, sink, res);
  }
  if (!place.object->is_dir()) return DafsStatus::kNotDir;
  STORE_RETURN_IF_NOT_OK(impl_->Enter(caller, *place.object->fs().exported));
  return ListDirectory(*impl_, caller, *place.object, request, sink, res);
}

}  // namespace dafs::server
