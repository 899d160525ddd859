#include "server/store/objects/export_refusal.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dafs::server {

absl::Status Refused(const Export& e, absl::string_view path, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("export ", e.name, "=", e.directory, ": ", path, ": ", why));
}

absl::Status NoHandles(const Export& e, const std::string& path, int error) {
  if (error == EOVERFLOW) {
    return Refused(e, path,
                   "its kernel handles are longer than the 32 bytes a filehandle has room for; "
                   "export a directory of the file system below it instead");
  }
  if (error == EPERM) {
    return Refused(e, path, "opening by handle is not permitted; dafsd must run as root");
  }
  return Refused(
      e, path,
      absl::StrCat("its file system has no persistent file handles (", std::strerror(error),
                   "); an overlay needs the mount options index=on,nfs_export=on, "
                   "other kinds cannot be exported"));
}

}  // namespace dafs::server
