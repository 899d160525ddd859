#include "fuse/mount/module.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace dafs::fuse {
namespace {

// Returns null, and why.
void* Load(const char* file, std::string* why) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& folder :
       {program.parent_path(), std::filesystem::path(DAFS_MODULE_DIR)}) {
    const std::filesystem::path path = folder / file;
    if (!path.is_absolute() || !std::filesystem::exists(path, error)) continue;
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) *why = dlerror();
    return module;
  }
  *why = absl::StrCat(file, " is not in ", DAFS_MODULE_DIR, "; install mount.dafs again");
  return nullptr;
}

}  // namespace

absl::StatusOr<void*> LoadModule(const ModuleNames& names) {
  std::string why;
  void* const module = Load(names.file, &why);
  if (module == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(names.purpose, ": ", why));
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
