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
                                                       absl::Duration within) {
  RETURN_IF_ERROR(CheckExports(wanted));
  std::vector<size_t> removed, changed;
  ExportChanges changes;
  {
    absl::MutexLock lock(&reloading_);
    ASSIGN_OR_RETURN(const std::vector<size_t> indices, PlanExports(wanted));
    RETURN_IF_ERROR(OpenAdded(indices, within));
    changes = ReplaceExports(std::move(wanted), indices, &removed, &changed);
    for (size_t i : removed) RevokeInExport(i);  // before another reload can add it again
  }
  if (changes.none()) return changes;
  StartLeasesIfNeeded();
  for (size_t i : changed) {
    RecallInExport(i);
    RunFor(i, [this, i] {  // it may be writable now
      RestoreOwnIdentity();
      mounts->ForEachIn(i, [this](const FileSystem& fs) { TakeUpOrphans(fs); });
    });
  }
  if (end_promises != nullptr) end_promises(promises.CallAll());
  return changes;
}

void StoreImpl::RunFor(size_t export_index, absl::AnyInvocable<void()> work) {
  if (run_for_export == nullptr || !mounts->MayHang(export_index)) return work();
  run_for_export(export_index, std::move(work));
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
  const Openings::Added opened = openings.OpenMore(
      added, [this](size_t i) { return OpenAndSettle(i); },
      [this](size_t i) { ReleaseIfRemoved(i); }, within);
  if (!opened.unfinished) return opened.status;
  const Export& slow = exports[*opened.unfinished];
  return absl::DeadlineExceededError(absl::StrCat(
      "export ", slow.name, "=", slow.directory, ": its file system has not answered within ",
      absl::FormatDuration(within), "; check that it is mounted and its server runs"));
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

std::vector<OpenTable::Holding> StoreImpl::HeldIn(size_t export_index) const {
  return opens.HeldIn([this, export_index](const ObjectKey& key) {
    return mounts->ExportOf(key.fshandle()) == export_index;
  });
}

void StoreImpl::RecallInExport(size_t export_index) {
  for (const OpenTable::Holding& each : HeldIn(export_index)) {
    if (each.is_delegation) RecallAll(each.key);
  }
}

void StoreImpl::RevokeInExport(size_t export_index) {
  // An open that is added from now on finds that its file system is retired.
  std::vector<const FileSystem*> retired = mounts->Retire(export_index);
  std::vector<OpenTable::Holding> held = HeldIn(export_index);
  for (const OpenTable::Holding& each : held) {
    if (each.is_delegation) RecallAll(each.key);  // the client drops what it has cached
    opens.Revoke(each.client_id);
  }
  RunFor(export_index, [this, held = std::move(held), retired = std::move(retired)] {
    RestoreOwnIdentity();
    for (const auto& [client_id, state_id, key, is_delegation] : held) {
      CloseOpen(client_id, state_id, key);
    }
    ReleaseFileSystems(retired);
  });
}

void StoreImpl::ReleaseFileSystems(const std::vector<const FileSystem*>& retired) {
  for (const FileSystem* fs : retired) {
    cache.EraseOf(*fs);
    OrphansOf(*fs).Forget(*fs);
    ReleaseRoot(*fs);
  }
}

void StoreImpl::ReleaseIfRemoved(size_t export_index) {
  if (!exports[export_index].removed) return;
  RestoreOwnIdentity();
  ReleaseFileSystems(mounts->Retire(export_index));
}

}  // namespace dafs::server
