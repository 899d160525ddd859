#include "server/store/parts/inventory.h"

#include <limits.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/loop/loop.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/fd_path.h"

namespace dafs::server {
namespace {

bool IsBelow(const std::string& path, const std::string& directory) {
  return path == directory || directory == "/" || absl::StartsWith(path, directory + "/");
}

}  // namespace

Inventory::FileName Inventory::NameOf(const ObjectKey& file) const {
  FileName name{.export_index = store_.mounts->ExportOf(file.fshandle()), .path = ""};
  if (!name.export_index) return name;
  const HandleKind kind = KindOf(file);
  const ObjectKey key = kind == HandleKind::kFile ? file : ObjectKeyOf(file);
  ObjectRef object = store_.opens.FindObject(key);
  if (object == nullptr) object = store_.cache.Find(key);
  const ExportRoot* const root = store_.mounts->Root(*name.export_index);
  if (object == nullptr || root == nullptr) return name;
  char path[PATH_MAX];
  const ssize_t length = readlink(FdPath(object->path_fd()).c_str(), path, sizeof(path));
  // The kernel shows a file without a known name as the root of its file system.
  if (length <= 0) return name;
  name.path.assign(path, static_cast<size_t>(length));
  if (!IsBelow(name.path, root->directory)) name.path.clear();
  return name;
}

std::vector<Inventory::Open> Inventory::OpensOf(
    const wire::ClientId& client_id, size_t most,
    absl::FunctionRef<bool(const ObjectKey& file)> wants) const {
  std::vector<Open> opens;
  for (const auto& [state_id, key] : store_.opens.OpensOf(client_id)) {
    if (opens.size() == most) break;
    if (!wants(key)) continue;
    OpenRights rights;
    if (store_.opens.Find(client_id, state_id, key, &rights) != wire::DafsStatus::kOk) continue;
    opens.push_back({.file = key, .access = rights.access, .is_delegation = rights.is_delegation});
  }
  return opens;
}

size_t Inventory::DelegationsOf(const wire::ClientId& client_id) const {
  if (!store_.delegations.any()) return 0;
  size_t count = 0;
  for (const auto& [state_id, key] : store_.opens.OpensOf(client_id)) {
    ObjectKey file;
    count += store_.opens.FindDelegation(client_id, state_id, &file) == wire::DafsStatus::kOk;
  }
  return count;
}

std::vector<ObjectKey> Inventory::LockedFiles() const { return store_.locks.Files(); }

std::vector<Inventory::Lock> Inventory::LocksOn(const ObjectKey& file, size_t most) const {
  std::vector<Lock> locks;
  for (LockTable::Entry& entry : store_.locks.EntriesOf(file, Loop::Now(), most)) {
    locks.push_back({.client_id = entry.owner.client_id,
                     .owner = std::move(entry.owner.owner),
                     .range = entry.range,
                     .waits = entry.waits,
                     .by_kernel = entry.by_kernel});
  }
  return locks;
}

size_t Inventory::waiting() const { return store_.locks.waiting(); }

size_t Inventory::open_count() const { return store_.opens.size(); }

size_t Inventory::lock_count() const { return store_.locks.size(); }

size_t Inventory::descriptor_count() const { return store_.descriptors.of_objects(); }

}  // namespace dafs::server
