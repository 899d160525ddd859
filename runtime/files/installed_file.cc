#include "runtime/files/installed_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace dafs {

absl::StatusOr<std::string> FindInstalledFile(const std::string& file, const std::string& purpose) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& folder :
       {program.parent_path(), std::filesystem::path(DAFS_MODULE_DIR)}) {
    const std::filesystem::path path = folder / file;
    if (path.is_absolute() && std::filesystem::exists(path, error)) return path.string();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(purpose, ": ", file, " is not in ", DAFS_MODULE_DIR,
                   "; install mount.dafs again (package dafs-client)"));
}

}  // namespace dafs
