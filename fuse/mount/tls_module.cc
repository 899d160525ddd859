#include "fuse/mount/tls_module.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "wire/dat/tls/module.h"

namespace dafs::fuse {
namespace {

constexpr char kModule[] = "dafs-tls.so";

// Returns null, and why.
void* Load(std::string* why) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& folder :
       {program.parent_path(), std::filesystem::path(DAFS_MODULE_DIR)}) {
    const std::filesystem::path path = folder / kModule;
    if (!path.is_absolute() || !std::filesystem::exists(path, error)) continue;
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) *why = dlerror();
    return module;
  }
  *why = std::string(kModule) + " is not in " + DAFS_MODULE_DIR + "; install mount.dafs again";
  return nullptr;
}

}  // namespace

absl::StatusOr<std::shared_ptr<dat::TlsContext>> NewTlsFromModule(const dat::TlsOptions& options) {
  std::string why;
  void* const module = Load(&why);
  if (module == nullptr) return absl::FailedPreconditionError("TLS: " + why);
  const auto* version = static_cast<const char*>(dlsym(module, dat::kTlsModuleVersion));
  void* const entry = dlsym(module, dat::kTlsModuleEntry);
  if (version == nullptr || entry == nullptr || std::strcmp(version, DAFS_VERSION) != 0) {
    return absl::FailedPreconditionError(std::string("TLS: ") + kModule +
                                         " is of another version; install mount.dafs again");
  }
  absl::StatusOr<std::shared_ptr<dat::TlsContext>> made = absl::UnknownError("");
  reinterpret_cast<dat::TlsModuleEntry>(entry)(options, &made);
  return made;
}

}  // namespace dafs::fuse
