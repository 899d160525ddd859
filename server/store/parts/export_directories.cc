#include "server/store/parts/export_directories.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/durable/state_dir_check.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/identity.h"
#include "server/store/system/stall_report.h"

namespace dafs::server {

using wire::DafsStatus;

ExportDirectories::ExportDirectories(StoreParts& store)
    : store_(store), is_settled_(store.options.exports.size()), paths_(store.exports.capacity()) {}

absl::Status ExportDirectories::OpenAll(std::function<void(size_t)> settle, absl::Duration within) {
  // By export, each used by the thread of that export.
  std::vector<uint8_t> was_tried(store_.options.exports.size());
  const absl::Duration first = within == absl::InfiniteDuration() ? absl::Seconds(5) : within;
  settle_ = std::move(settle);
  const auto open = [this, first, was_tried](size_t index) mutable {
    const Export& exported = store_.exports[index];
    if (exported.removed) return absl::OkStatus();  // by a reload, before it could be opened
    // A file system that fails after some seconds each time must not be logged each time.
    const bool again = std::exchange(was_tried[index], uint8_t{1}) != 0;
    const StallReport stalls(absl::StrCat("export ", exported.name, "=", exported.directory),
                             {.first = again ? absl::Minutes(1) : first});
    return OpenAndSettle(index);
  };
  // Until an export is open, it is not known what it leads to.
  for (size_t i = 0; i < store_.options.exports.size(); ++i) store_.mounts->NoteMayHang(i);
  return store_.openings.Start(open, within);
}

void ExportDirectories::EndOpening() { store_.openings.End(); }

bool ExportDirectories::AwaitOpened(absl::Time deadline) const {
  return store_.openings.Await(deadline);
}

std::vector<size_t> ExportDirectories::Opening() const {
  std::vector<size_t> opening;
  for (size_t i = 0; i < store_.options.exports.size(); ++i) {  // later ones were opened before
    if (store_.openings.IsOpening(i)) opening.push_back(i);
  }
  return opening;
}

absl::Status ExportDirectories::OpenExport(size_t export_index) {
  const Export& wanted = store_.exports[export_index];
  RETURN_IF_ERROR(CheckOutOfReach(store_.options.state_dir, wanted));
  if (!store_.options.audit_file.empty()) {
    RETURN_IF_ERROR(CheckAuditOutOfReach(store_.options.audit_file, wanted));
  }
  ASSIGN_OR_RETURN(Mounts::Opened opened, store_.mounts->Open(export_index));
  if (const ExportRoot* root = store_.mounts->Root(export_index);
      root != nullptr && root->directory != opened.root.directory) {
    // A local user who may replace the directory must not choose what else is exported.
    const Export& exported = store_.exports[export_index];
    return absl::FailedPreconditionError(absl::StrCat(
        "export ", exported.name, "=", exported.directory, ": a symbolic link now leads to ",
        opened.root.directory, " instead of ", root->directory, "; restart dafsd to serve that"));
  }
  const std::optional<size_t> other = store_.mounts->ExportOf(opened.top->fshandle);
  if (other && *other != export_index && !store_.exports[*other].removed) {
    // A reload wants another path to the same directory. The handles of both exports are the same.
    const Export& exported = store_.exports[export_index];
    return absl::FailedPreconditionError(absl::StrCat(
        "export ", exported.name, "=", exported.directory, ": the path leads to ",
        opened.root.directory, ", which is already served by the path ",
        store_.exports[*other].directory, "; keep that path, or restart dafsd to use the other"));
  }
  const FileSystem& top = *opened.top;
  const wire::FileHandle handle = opened.root.handle;
  store_.kept_orphans.TakeUp(top);
  store_.undo_log.Tidy(top);
  const ExportRoot* before = store_.mounts->Serve(export_index, std::move(opened));
  // Another mount with the same handles: the descriptors of the former one must not be used.
  const bool remounted = before != nullptr && before->top->fshandle == top.fshandle &&
                         before->top->mount_id != top.mount_id;
  if (remounted) store_.cache.EraseOf(*before->top);
  if (before != nullptr && !(before->handle == handle)) store_.cache.Erase(KeyOf(before->handle));
  store_.mounts->FindWith(export_index, kOrphanDirectory);
  if (before != nullptr) store_.promise_ends.EndAll();  // its path leads elsewhere
  return absl::OkStatus();
}

absl::Status ExportDirectories::OpenFirst(size_t export_index) {
  RestoreOwnIdentity();
  PathState& path = paths_[export_index];
  absl::MutexLock lock(&path.opening);
  absl::Status status = OpenExport(export_index);
  path.refusal = std::string(status.message());
  return status;
}

absl::Status ExportDirectories::OpenAndSettle(size_t export_index) {
  RETURN_IF_ERROR(OpenFirst(export_index));
  if (settle_ != nullptr && export_index < is_settled_.size() &&
      std::exchange(is_settled_[export_index], uint8_t{1}) == 0) {
    settle_(export_index);
  }
  return absl::OkStatus();
}

void ExportDirectories::NoteLeads(size_t export_index, bool nowhere) {
  if (paths_[export_index].nowhere.exchange(nowhere, std::memory_order_relaxed) == nowhere) return;
  const Export& exported = store_.exports[export_index];
  const std::string which = absl::StrCat("export ", exported.name, "=", exported.directory);
  if (!nowhere) return LogNotice(which + ": the path leads to a directory again");
  LogWarning(which +
             ": nothing is at this path any more; clients still see the earlier directory, "
             "until another one is");
}

DafsStatus ExportDirectories::FollowPath(size_t export_index) {
  if (store_.openings.IsOpening(export_index)) return DafsStatus::kDelay;
  ScopedPrivilege privilege(Privilege::kOverFiles);
  const Mounts::Leads leads = store_.mounts->WhereLeads(export_index);
  NoteLeads(export_index, leads == Mounts::Leads::kNowhere);
  if (leads == Mounts::Leads::kToRoot) return DafsStatus::kOk;
  if (leads == Mounts::Leads::kNowhere) {
    return store_.mounts->Root(export_index) != nullptr ? DafsStatus::kOk : DafsStatus::kNoEnt;
  }
  if (!store_.mounts->MayHang(export_index) && store_.mounts->LeadsToWhatMayHang(export_index)) {
    // The next attempt runs where only this export waits.
    store_.mounts->NoteMayHang(export_index);
    return DafsStatus::kDelay;
  }
  return Reopen(export_index);
}

DafsStatus ExportDirectories::Reopen(size_t export_index) {
  PathState& path = paths_[export_index];
  const ScopedOwnIdentity own;
  absl::MutexLock lock(&path.opening);
  if (store_.mounts->WhereLeads(export_index) == Mounts::Leads::kToRoot) return DafsStatus::kOk;
  const absl::Status status = OpenExport(export_index);
  ReleaseIfRemoved(export_index);  // a reload has not found what was opened now
  if (!status.ok()) {
    if (std::exchange(path.refusal, std::string(status.message())) != status.message()) {
      LogError(
          absl::StrCat("the path of an export leads to another directory, which cannot be "
                       "served: ",
                       status.message(), "; lookups of the export fail until it can be served"));
    }
    return DafsStatus::kAcces;
  }
  path.refusal.clear();
  const Export& exported = store_.exports[export_index];
  LogNotice(absl::StrCat("export ", exported.name, "=", exported.directory,
                         ": the path leads to another directory, which is served from now on; "
                         "files of the former one that are open stay open"));
  return DafsStatus::kOk;
}

void ExportDirectories::FollowPaths() {
  if (following_.exchange(true)) return;
  RestoreOwnIdentity();
  for (size_t i = 0; i < store_.exports.size(); ++i) {
    if (store_.openings.IsOpening(i) || store_.exports[i].removed) continue;
    if (!store_.threads.HandsOver(i)) {
      FollowPath(i);
    } else if (!paths_[i].following.exchange(true)) {
      store_.threads.Run(i, [this, i] {
        RestoreOwnIdentity();
        FollowPath(i);
        paths_[i].following.store(false);
      });
    }
  }
  following_.store(false);
}

void ExportDirectories::ReleaseFileSystems(const std::vector<const FileSystem*>& retired) {
  for (const FileSystem* fs : retired) {
    store_.cache.EraseOf(*fs);
    store_.kept_orphans.Of(*fs).Forget(*fs);
    ReleaseRoot(*fs);
  }
}

void ExportDirectories::ReleaseIfRemoved(size_t export_index) {
  if (!store_.exports[export_index].removed) return;
  RestoreOwnIdentity();
  ReleaseFileSystems(store_.mounts->Retire(export_index));
}

}  // namespace dafs::server
