#include "fuse/mount/client/mapped_names.h"

#include <utility>

#include "runtime/files/installed_file.h"
#include "runtime/status_macros.h"

namespace dafs::fuse {

using auth::IdKind;

std::optional<absl::StatusOr<uint32_t>> MappedNames::KeptId(IdKind kind,
                                                            std::string_view name) const {
  return map_.KeptId(kind, name);
}

std::optional<absl::StatusOr<std::string>> MappedNames::KeptName(IdKind kind, uint32_t id) const {
  return map_.KeptName(kind, id);
}

void MappedNames::AskId(IdKind kind, std::string_view name, std::function<void()> done) {
  map_.AskId(kind, name, std::move(done));
}

void MappedNames::AskName(IdKind kind, uint32_t id, std::function<void()> done) {
  map_.AskName(kind, id, std::move(done));
}

absl::StatusOr<std::shared_ptr<client::IdNames>> NewMappedNames(const Options& options) {
  ASSIGN_OR_RETURN(std::string helper, FindInstalledFile("dafs-idmap", "id_domain="));
  return std::make_shared<MappedNames>(
      auth::IdMapOptions{.helper = std::move(helper), .domain = options.id_domain});
}

}  // namespace dafs::fuse
