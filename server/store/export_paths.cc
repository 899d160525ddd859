// The directories of the exports: opens them at the start, and follows their paths.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"
#include "server/store/durable/state_dir_check.h"
#include "server/store/store_impl.h"
#include "server/store/system/identity.h"

namespace dafs::server {

using wire::DafsStatus;

absl::Status StoreImpl::OpenExport(size_t export_index) {
  RETURN_IF_ERROR(CheckOutOfReach(options.state_dir, exports[export_index]));
  ASSIGN_OR_RETURN(Mounts::Opened opened, mounts->Open(export_index));
  if (const ExportRoot* root = mounts->Root(export_index);
      root != nullptr && root->directory != opened.root.directory) {
    // A local user who may replace the directory must not choose what else is exported.
    const Export& exported = exports[export_index];
    return absl::FailedPreconditionError(absl::StrCat(
        "export ", exported.name, "=", exported.directory, ": a symbolic link now leads to ",
        opened.root.directory, " instead of ", root->directory, "; restart dafsd to serve that"));
  }
  const std::optional<size_t> other = mounts->ExportOf(opened.top->fshandle);
  if (other && *other != export_index && !exports[*other].removed) {
    // A reload wants another path to the same directory. The handles of both exports are the same.
    const Export& exported = exports[export_index];
    return absl::FailedPreconditionError(absl::StrCat(
        "export ", exported.name, "=", exported.directory, ": the path leads to ",
        opened.root.directory, ", which is already served by the path ", exports[*other].directory,
        "; keep that path, or restart dafsd to use the other"));
  }
  const FileSystem& top = *opened.top;
  const wire::FileHandle handle = opened.root.handle;
  TakeUpOrphans(top);
  const ExportRoot* before = mounts->Serve(export_index, std::move(opened));
  // Another mount with the same handles: the descriptors of the former one must not be used.
  const bool remounted = before != nullptr && before->top->fshandle == top.fshandle &&
                         before->top->mount_id != top.mount_id;
  if (remounted) cache.EraseOf(*before->top);
  if (before != nullptr && !(before->handle == handle)) cache.Erase(KeyOf(before->handle));
  mounts->FindWith(export_index, kOrphanDirectory);
  if (before != nullptr && end_promises != nullptr) end_promises(promises.CallAll());
  return absl::OkStatus();
}

absl::Status StoreImpl::OpenFirst(size_t export_index) {
  RestoreOwnIdentity();
  PathState& path = paths_[export_index];
  absl::MutexLock lock(&path.opening);
  const absl::Status status = OpenExport(export_index);
  path.refusal = std::string(status.message());
  return status;
}

absl::Status StoreImpl::OpenAndSettle(size_t export_index) {
  RETURN_IF_ERROR(OpenFirst(export_index));
  if (settle != nullptr && export_index < is_settled_.size() &&
      std::exchange(is_settled_[export_index], uint8_t{1}) == 0) {
    settle(export_index);
  }
  return absl::OkStatus();
}

void StoreImpl::NoteLeads(size_t export_index, bool nowhere) {
  if (paths_[export_index].nowhere.exchange(nowhere, std::memory_order_relaxed) == nowhere) return;
  const Export& exported = exports[export_index];
  const std::string which = absl::StrCat("export ", exported.name, "=", exported.directory);
  if (!nowhere) return LogNotice(which + ": the path leads to a directory again");
  LogWarning(which +
             ": nothing is at this path any more; clients still see the earlier directory, "
             "until another one is");
}

DafsStatus StoreImpl::FollowPath(size_t export_index) {
  if (openings.IsOpening(export_index)) return DafsStatus::kDelay;
  ScopedPrivilege privilege(Privilege::kOverFiles);
  const Mounts::Leads leads = mounts->WhereLeads(export_index);
  NoteLeads(export_index, leads == Mounts::Leads::kNowhere);
  if (leads == Mounts::Leads::kToRoot) return DafsStatus::kOk;
  if (leads == Mounts::Leads::kNowhere) {
    return mounts->Root(export_index) != nullptr ? DafsStatus::kOk : DafsStatus::kNoEnt;
  }
  if (!mounts->MayHang(export_index) && mounts->LeadsToWhatMayHang(export_index)) {
    // The next attempt runs where only this export waits.
    mounts->NoteMayHang(export_index);
    return DafsStatus::kDelay;
  }
  return Reopen(export_index);
}

DafsStatus StoreImpl::Reopen(size_t export_index) {
  PathState& path = paths_[export_index];
  const ScopedOwnIdentity own;
  absl::MutexLock lock(&path.opening);
  if (mounts->WhereLeads(export_index) == Mounts::Leads::kToRoot) return DafsStatus::kOk;
  const absl::Status status = OpenExport(export_index);
  ReleaseIfRemoved(export_index);  // a reload has not found what was opened now
  if (!status.ok()) {
    if (std::exchange(path.refusal, std::string(status.message())) != status.message()) {
      LogError(
          absl::StrCat("the path of an export leads to another directory, which cannot be "
                       "served: ",
                       status.message(), "; lookups of the export fail until that is mended"));
    }
    return DafsStatus::kAcces;
  }
  path.refusal.clear();
  const Export& exported = exports[export_index];
  LogNotice(absl::StrCat("export ", exported.name, "=", exported.directory,
                         ": the path leads to another directory, which is served from now on; "
                         "files of the former one that are open stay open"));
  return DafsStatus::kOk;
}

void StoreImpl::FollowPaths() {
  if (following_.exchange(true)) return;
  RestoreOwnIdentity();
  for (size_t i = 0; i < exports.size(); ++i) {
    if (openings.IsOpening(i) || exports[i].removed) continue;
    if (run_for_export == nullptr || !mounts->MayHang(i)) {
      FollowPath(i);
    } else if (!paths_[i].following.exchange(true)) {
      run_for_export(i, [this, i] {
        RestoreOwnIdentity();
        FollowPath(i);
        paths_[i].following.store(false);
      });
    }
  }
  following_.store(false);
}

}  // namespace dafs::server
