#include "server/store/parts/export_reload.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/identity.h"

namespace dafs::server {

absl::StatusOr<ExportChanges> ExportReload::Reload(std::vector<Export> wanted,
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
    store_.threads.Run(i, [this, i] {  // it may be writable now
      RestoreOwnIdentity();
      store_.mounts->ForEachIn(i, [this](const FileSystem& fs) { store_.kept_orphans.TakeUp(fs); });
    });
  }
  store_.promise_ends.EndAll();
  return changes;
}

// The index of each wanted export. One that is not served yet gets its options here, but stays
// removed.
absl::StatusOr<std::vector<size_t>> ExportReload::PlanExports(const std::vector<Export>& wanted) {
  std::vector<size_t> indices;
  for (const Export& each : wanted) {
    std::optional<size_t> index = store_.exports.Find(each.name, each.directory);
    if (!index || store_.exports[*index].removed) {
      Export hidden = each;
      hidden.removed = true;
      if (index) {
        store_.exports.Set(*index, std::move(hidden));
      } else {
        if (store_.exports.size() < store_.exports.capacity()) {
          store_.object_locks.Add(store_.exports.size());
        }
        index = store_.exports.Add(std::move(hidden));
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

absl::Status ExportReload::OpenAdded(const std::vector<size_t>& indices, absl::Duration within) {
  std::vector<size_t> added;
  for (size_t i : indices) {
    if (store_.exports[i].removed) added.push_back(i);
  }
  for (size_t i : added) store_.kept_orphans.SetKeeps(i, store_.grace.active());
  const Openings::Added opened = store_.openings.OpenMore(
      added, [this](size_t i) { return store_.directories.OpenAndSettle(i); },
      [this](size_t i) { store_.directories.ReleaseIfRemoved(i); }, within);
  if (!opened.unfinished) return opened.status;
  const Export& slow = store_.exports[*opened.unfinished];
  return absl::DeadlineExceededError(absl::StrCat(
      "export ", slow.name, "=", slow.directory, ": its file system has not answered within ",
      absl::FormatDuration(within), "; check that it is mounted and its server runs"));
}

ExportChanges ExportReload::ReplaceExports(std::vector<Export> wanted,
                                           const std::vector<size_t>& indices,
                                           std::vector<size_t>* removed,
                                           std::vector<size_t>* changed) {
  ExportChanges changes;
  for (size_t i = 0; i < store_.exports.size(); ++i) {
    const Export& each = store_.exports[i];
    if (each.removed || std::find(indices.begin(), indices.end(), i) != indices.end()) continue;
    changes.removed.push_back(each.name);
    removed->push_back(i);
    Export without = each;
    without.removed = true;
    store_.exports.Set(i, std::move(without));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Export& before = store_.exports[indices[i]];
    if (before == wanted[i]) continue;
    (before.removed ? changes.added : changes.changed).push_back(before.name);
    if (!before.removed) changed->push_back(indices[i]);
    store_.exports.Set(indices[i], std::move(wanted[i]));
  }
  if (!changes.added.empty() || !changes.removed.empty()) store_.pseudo_tree.Renew();
  // The grace period may have ended since an export was opened.
  if (!changes.added.empty() && !store_.grace.active()) store_.kept_orphans.Sweep(indices);
  return changes;
}

void ExportReload::PreferAlternate(const std::string& server) {
  absl::MutexLock lock(&reloading_);
  for (size_t i = 0; i < store_.exports.size(); ++i) {
    Export preferring = store_.exports[i];
    if (preferring.removed) continue;
    std::erase_if(preferring.failover,
                  [&](const FailoverLocation& one) { return one.server == server; });
    preferring.failover.insert(preferring.failover.begin(), {server, preferring.name});
    store_.exports.Set(i, std::move(preferring));
  }
}

std::vector<OpenTable::Holding> ExportReload::HeldIn(size_t export_index) const {
  return store_.opens.HeldIn([this, export_index](const ObjectKey& key) {
    return store_.mounts->ExportOf(key.fshandle()) == export_index;
  });
}

void ExportReload::RecallInExport(size_t export_index) {
  for (const OpenTable::Holding& each : HeldIn(export_index)) {
    if (each.is_delegation) store_.announcements.RecallAll(each.key);
  }
}

void ExportReload::RevokeInExport(size_t export_index) {
  // An open that is added from now on finds that its file system is retired.
  std::vector<const FileSystem*> retired = store_.mounts->Retire(export_index);
  std::vector<OpenTable::Holding> held = HeldIn(export_index);
  for (const OpenTable::Holding& each : held) {
    if (each.is_delegation)
      store_.announcements.RecallAll(each.key);  // the client drops what it has cached
    store_.opens.Revoke(each.client_id);
  }
  store_.threads.Run(export_index, [this, held = std::move(held), retired = std::move(retired)] {
    RestoreOwnIdentity();
    for (const auto& [client_id, state_id, key, is_delegation] : held) {
      store_.releases.CloseOpen(client_id, state_id, key);
    }
    store_.directories.ReleaseFileSystems(retired);
  });
}

void ExportReload::StartLeasesIfNeeded() {
  const std::vector<const Export*> served = store_.exports.Served();
  const auto needs_leases = [](const Export* each) { return !each->only_clients_change; };
  absl::MutexLock lock(&reloading_);
  const bool delegates =
      store_.options.use_leases && store_.options.delegations.most != Delegations::Type::kNone;
  if (uses_leases_ || (!delegates && !store_.exported.on()) ||
      std::none_of(served.begin(), served.end(), needs_leases)) {
    return;
  }
  uses_leases_ = true;
  store_.leases.Start();
}

}  // namespace dafs::server
