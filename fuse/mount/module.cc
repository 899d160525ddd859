#include "fuse/mount/module.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::fuse {

absl::StatusOr<std::string> FindModule(const std::string& file, const std::string& purpose) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& folder :
       {program.parent_path(), std::filesystem::path(DAFS_MODULE_DIR)}) {
    const std::filesystem::path path = folder / file;
    if (path.is_absolute() && std::filesystem::exists(path, error)) return path.string();
  }
  return absl::FailedPreconditionError(absl::StrCat(purpose, ": ", file, " is not in ",
                                                    DAFS_MODULE_DIR, "; install mount.dafs again"));
}

absl::StatusOr<void*> LoadModule(const ModuleNames& names) {
  ASSIGN_OR_RETURN(const std::string path, FindModule(names.file, names.purpose));
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
