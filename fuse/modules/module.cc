#include "fuse/modules/module.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/files/installed_file.h"
#include "runtime/status_macros.h"

namespace dafs::fuse {

absl::StatusOr<void*> LoadModule(const ModuleNames& names) {
  ASSIGN_OR_RETURN(const std::string path, FindInstalledFile(names.file, names.purpose));
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(names.purpose, ": ", dlerror()));
  }
  const auto* version = static_cast<const char*>(dlsym(module, names.version));
  void* const entry = dlsym(module, names.entry);
  if (version == nullptr || entry == nullptr || std::strcmp(version, DAFS_VERSION) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        names.purpose, ": ", names.file, " is of another version; install mount.dafs again"));
  }
  return entry;
}

}  // namespace dafs::fuse
