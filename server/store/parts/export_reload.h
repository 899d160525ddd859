// Replaces the exports while requests run. First the directories of new exports are opened, which
// may fail; then everything is replaced, which may not.
// Thread-safe. Blocks on the file systems of the exports.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/open_table.h"
#include "server/store/objects/export.h"

namespace dafs::server {

struct StoreParts;

// The names of exports that a reload has changed.
struct ExportChanges {
  std::vector<std::string> added, removed, changed;
  bool none() const { return added.empty() && removed.empty() && changed.empty(); }
};

class ExportReload {
 public:
  // Borrowed.
  explicit ExportReload(StoreParts& store) : store_(store) {}

  // Replaces the exports while requests run. The next request sees the new ones.
  // - Added: its directory is opened first; waits at most `within` for its file system.
  // - Removed: requests fail with ACCES. Opens and locks in it are released, also by requests that
  //   are under way; their state ids fail with EXPIRED. Its file systems can be unmounted then. For
  //   an export that may hang this happens on its own threads, perhaps later.
  // - Changed options: the delegations in it are recalled.
  // All promises end if anything has changed. On an error nothing has changed: kInvalidArgument
  // (CheckExports), kFailedPrecondition or kDeadlineExceeded (a directory cannot be served; the
  // message begins with `export NAME=DIRECTORY: `), kResourceExhausted. Needs the server's own
  // identity. Thread-safe.
  absl::StatusOr<ExportChanges> Reload(std::vector<Export> wanted, absl::Duration within)
      ABSL_LOCKS_EXCLUDED(reloading_);

  // Names `server` as the first alternate location of every export, until the next reload.
  void PreferAlternate(const std::string& server) ABSL_LOCKS_EXCLUDED(reloading_);

  // Begins to take leases of the kernel if an export needs them.
  void StartLeasesIfNeeded() ABSL_LOCKS_EXCLUDED(reloading_);

 private:
  // The steps of Reload.
  absl::StatusOr<std::vector<size_t>> PlanExports(const std::vector<Export>& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);
  absl::Status OpenAdded(const std::vector<size_t>& indices, absl::Duration within)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);
  ExportChanges ReplaceExports(std::vector<Export> wanted, const std::vector<size_t>& indices,
                               std::vector<size_t>* removed, std::vector<size_t>* changed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reloading_);
  // Ends what clients hold in an export that was removed, and releases its file systems. For one
  // that may hang, its own threads do so, perhaps later.
  void RevokeInExport(size_t export_index);
  void RecallInExport(size_t export_index);
  std::vector<OpenTable::Holding> HeldIn(size_t export_index) const;

  StoreParts& store_;
  absl::Mutex reloading_;
  bool uses_leases_ ABSL_GUARDED_BY(reloading_) = false;
};

}  // namespace dafs::server
