// READDIR. Spec: 6.5.29, 6.5.30; WIRE 9.4, R36, R56; docs/decisions.md, Server.
//
// The cookie of an entry is the kernel's position after it, d_off. So a listing continues at the
// right place after any creation or removal, and after a restart. The cookie verifier identifies
// the directory, not its state, and never expires.
#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include "runtime/files/unique_fd.h"
#include "server/store/access/act_as.h"
#include "server/store/access/answer_promises.h"
#include "server/store/attributes/attributes.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/procedures/shared/entry_attributes.h"
#include "server/store/system/directory_reader.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "wire/protocol/header.h"

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

// The entries of one response. They end when the sink takes no more, or when dircount, a hint for
// the size of names and cookies, is used up.
class Listing {
 public:
  Listing(ReaddirSink sink, uint32_t dircount)
      : sink_(sink), left_(dircount == 0 ? UINT32_MAX : dircount) {}

  // Adds an entry. Returns false if the listing ends before or with it, with status().
  bool Add(uint64_t cookie, std::string_view name, wire::FileAttributes& attributes) {
    if (!sink_(cookie, name, attributes)) return false;
    any_ = true;
    const size_t bytes = sizeof cookie + name.size();
    left_ = bytes >= left_ ? 0 : left_ - static_cast<uint32_t>(bytes);
    return left_ > 0;
  }
  DafsStatus status() const { return any_ ? DafsStatus::kOk : DafsStatus::kReaddirNoSpc; }

 private:
  ReaddirSink sink_;
  uint32_t left_;
  bool any_ = false;
};

bool IsHidden(StoreParts& store, Object& directory, const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0 ||
         store.lookups.IsReserved(directory, name);
}

DafsStatus ListDirectory(StoreParts& store, const Caller& caller, Object& directory,
                         const ReaddirRequest& request, AnswerPromises& promises, ReaddirSink sink,
                         ReaddirResult* res) {
  promises.Names(directory);
  UniqueFd fd(open(FdPath(directory.path_fd()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return StatusFromErrno();
  if (caller.keeps_atime) KeepAtime(fd);
  DirectoryReader reader(fd.get());
  if (request.cookie != 0 && !reader.Seek(PositionOf(request.cookie))) {
    return DafsStatus::kBadCookie;
  }
  EntryAttributes reading(store, directory, request.attr_request_bitmap, promises);
  Listing listing(sink, request.dircount);
  int error = 0;
  while (const dirent64* entry = reader.Next(&error)) {
    if (IsHidden(store, directory, entry->d_name)) continue;
    wire::FileAttributes attributes;
    reading.Read(*entry, &attributes);
    if (!listing.Add(CookieOf(entry->d_off), entry->d_name, attributes)) return listing.status();
  }
  if (error == EINVAL) return DafsStatus::kBadCookie;
  if (error == ENOENT) return DafsStatus::kStale;  // the directory was removed
  if (error != 0) return StatusFromErrno(error);
  res->eof = true;
  return DafsStatus::kOk;
}

// Sets the attributes of `child`, an export or a directory above some. Returns false if it is to be
// left out: its export cannot be reached.
bool PseudoAttributes(StoreParts& store, const Caller& caller, const PseudoNode& child,
                      uint64_t bitmap, AnswerPromises& promises, wire::FileAttributes* attributes) {
  if (child.export_index < 0) {
    store.object_attributes.GetPseudoAttributes(child, bitmap, attributes);
    return true;
  }
  const auto index = static_cast<size_t>(child.export_index);
  if (store.mounts->MayHang(index) || store.openings.IsOpening(index)) {
    // A listing must not wait for an export that may hang, so its attributes are omitted.
    attributes->included = bitmap & wire::kFattrAll;
    return true;
  }
  const ExportRoot* root = store.mounts->Root(index);
  Place place;
  if (root == nullptr || store.handles.Resolve(caller, root->handle, &place) != DafsStatus::kOk) {
    return false;
  }
  if ((bitmap & kFattrReadable) != 0) {
    promises.Attributes(place.object->fs(), place.object->key());
  }
  return store.object_attributes.GetAttributes(*place.object, bitmap, attributes) ==
         DafsStatus::kOk;
}

// The pseudo file system: children in the order of their names, with consecutive cookies.
DafsStatus ListPseudo(StoreParts& store, const Caller& caller, const PseudoNode& node,
                      const ReaddirRequest& request, AnswerPromises& promises, ReaddirSink sink,
                      ReaddirResult* res) {
  uint64_t cookie = kLowPositions - 1;
  Listing listing(sink, request.dircount);
  for (const auto& [name, child] : node.children) {
    if (++cookie <= request.cookie) continue;
    // Hides exports that do not admit the client, and directories that lead only to such exports.
    const DafsStatus admission = store.pseudo_tree.AdmissionBelow(caller, *child);
    if (admission == DafsStatus::kWrongSec) {
      res->hides_for_security = true;
      promises.NoNames();  // a LOOKUP of the name reports the reason
    }
    if (admission != DafsStatus::kOk) continue;
    wire::FileAttributes attributes;
    if (!PseudoAttributes(store, caller, *child, request.attr_request_bitmap, promises,
                          &attributes)) {
      promises.NoNames();  // it may be reached later
      continue;
    }
    if (!listing.Add(cookie, name, attributes)) return listing.status();
  }
  res->eof = true;
  return DafsStatus::kOk;
}

}  // namespace

bool NameProcedures::ReaddirMayWait(const wire::FileHandle& filehandle) {
  return !IsOfAttributes(filehandle);
}

DafsStatus NameProcedures::Readdir(const Caller& caller, const ReaddirRequest& request,
                                   ReaddirSink sink, ReaddirResult* res) {
  *res = {};
  if (IsOfAttributes(request.filehandle)) {
    return store_.attributes.Readdir(caller, request, sink, res);
  }
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.Resolve(caller, request.filehandle, &place));
  res->cookieverf = CookieVerifier(place.handle());
  const bool known = request.cookie == 0 || request.cookieverf == res->cookieverf;
  if (!known || request.cookie == 1 || request.cookie == 2) return DafsStatus::kBadCookie;
  AnswerPromises promises(store_.announcements, caller);
  if (place.pseudo != nullptr) {
    STORE_RETURN_IF_NOT_OK(ListPseudo(store_, caller, *place.pseudo, request, promises, sink, res));
  } else {
    if (!place.object->is_dir()) return DafsStatus::kNotDir;
    STORE_RETURN_IF_NOT_OK(ActAs(caller, *place.object->fs().exported));
    STORE_RETURN_IF_NOT_OK(
        ListDirectory(store_, caller, *place.object, request, promises, sink, res));
  }
  const bool has_attributes = (request.attr_request_bitmap & kFattrReadable) != 0;
  promises.Report(has_attributes ? wire::kSpcondNames | wire::kSpcondAttributes
                                 : wire::kSpcondNames);
  return DafsStatus::kOk;
}

}  // namespace dafs::server
