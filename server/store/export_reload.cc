// Replaces the exports while requests run. First the directories of new exports are opened, which
// may fail; then everything is replaced, which may not.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "server/store/store_impl.h"
#include "server/store/system/identity.h"

namespace dafs::server {

using wire::DafsStatus;

absl::StatusOr<ExportChanges> StoreImpl::ReloadExports(std::vector<Export> wanted,
                                                       absl::Duration within,
                                                       std::span<const wire::ClientId> clients) {
  RETURN_IF_ERROR(CheckExports(wanted));
  std::vector<size_t> removed, changed;
  ExportChanges changes;
  {
    absl::MutexLock lock(&reloading_);
    ASSIGN_OR_RETURN(const std::vector<size_t> indices, PlanExports(wanted));
    RETURN_IF_ERROR(OpenAdded(indices, within));
    changes = ReplaceExports(std::move(wanted), indices, &removed, &changed);
  }
  if (changes.none()) return changes;
  StartLeasesIfNeeded();
  const auto run = [this](size_t i, absl::AnyInvocable<void()> work) {
    if (run_for_export == nullptr || !mounts->MayHang(i)) return work();
    run_for_export(i, std::move(work));
  };
  for (const wire::ClientId& client_id : clients) {
    for (size_t i : changed) RecallInExport(client_id, i);
    for (size_t i : removed) run(i, [this, client_id, i] { RevokeInExport(client_id, i); });
  }
  for (size_t i : changed) {
    run(i, [this, i] {  // it may be writable now
      RestoreOwnIdentity();
      mounts->ForEachIn(i, [this](const FileSystem& fs) { TakeUpOrphans(fs); });
    });
  }
  for (size_t i : removed) {
    mounts->ForEachIn(i, [this](const FileSystem& fs) { cache.EraseOf(fs); });
  }
  if (end_promises != nullptr) end_promises(promises.CallAll());
  return changes;
}

// The index of each wanted export. One that is not served yet gets its options here, but stays
// removed.
absl::StatusOr<std::vector<size_t>> StoreImpl::PlanExports(const std::vector<Export>& wanted) {
  std::vector<size_t> indices;
  for (const Export& each : wanted) {
    std::optional<size_t> index = exports.Find(each.name, each.directory);
    if (!index || exports[*index].removed) {
      Export hidden = each;
      hidden.removed = true;
      if (index) {
        exports.Set(*index, std::move(hidden));
      } else {
        if (exports.size() < exports.capacity()) {
          locks_[exports.size()] = std::make_unique<Locks>();
        }
        index = exports.Add(std::move(hidden));
      }
    }
    if (!index) {
      return absl::ResourceExhaustedError(absl::StrCat("more than ", ExportSet::kRoom,
                                                       " different exports were added since the "
                                                       "start; restart dafsd"));
    }
    indices.push_back(*index);
  }
  return indices;
}

absl::Status StoreImpl::OpenAdded(const std::vector<size_t>& indices, absl::Duration within) {
  std::vector<size_t> added;
  for (size_t i : indices) {
    if (exports[i].removed) added.push_back(i);
  }
  for (size_t i : added) keep_orphans_[i].store(grace.active(), std::memory_order_relaxed);
  const std::optional<absl::Status> opened = openings.OpenMore(
      added, [this](size_t i) { return OpenFirst(i); }, within);
  if (opened) return *opened;
  for (size_t i : added) {
    if (mounts->Root(i) != nullptr) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("export ", exports[i].name, "=", exports[i].directory,
                     ": its file system has not answered within ", absl::FormatDuration(within),
                     "; check that it is mounted and its server runs"));
  }
  return absl::DeadlineExceededError("the file systems of new exports are slow; try again");
}

ExportChanges StoreImpl::ReplaceExports(std::vector<Export> wanted,
                                        const std::vector<size_t>& indices,
                                        std::vector<size_t>* removed,
                                        std::vector<size_t>* changed) {
  ExportChanges changes;
  for (size_t i = 0; i < exports.size(); ++i) {
    const Export& each = exports[i];
    if (each.removed || std::find(indices.begin(), indices.end(), i) != indices.end()) continue;
    changes.removed.push_back(each.name);
    removed->push_back(i);
    Export without = each;
    without.removed = true;
    exports.Set(i, std::move(without));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Export& before = exports[indices[i]];
    if (before == wanted[i]) continue;
    (before.removed ? changes.added : changes.changed).push_back(before.name);
    if (!before.removed) changed->push_back(indices[i]);
    exports.Set(indices[i], std::move(wanted[i]));
  }
  if (!changes.added.empty() || !changes.removed.empty()) RenewPseudo();
  // The grace period may have ended since an export was opened.
  if (!changes.added.empty() && !grace.active()) SweepOrphans(indices);
  return changes;
}

void StoreImpl::RecallInExport(const wire::ClientId& client_id, size_t export_index) {
  for (const auto& [state_id, key] : opens.OpensOf(client_id)) {
    ObjectKey file;
    if (mounts->ExportOf(key.fshandle()) == export_index &&
        opens.FindDelegation(client_id, state_id, &file) == DafsStatus::kOk) {
      RecallAll(file);
    }
  }
}

void StoreImpl::RevokeInExport(const wire::ClientId& client_id, size_t export_index) {
  RestoreOwnIdentity();
  RecallInExport(client_id, export_index);  // the client drops what it has cached
  bool is_marked = false;
  for (const auto& [state_id, key] : opens.OpensOf(client_id)) {
    if (mounts->ExportOf(key.fshandle()) != export_index) continue;
    if (!std::exchange(is_marked, true)) opens.Revoke(client_id);
    CloseOpen(client_id, state_id, key);
  }
}

}  // namespace dafs::server
