// The directories of the exports: opens them at the start, and follows their paths. Each export is
// opened on a thread of its own (server/store/access/exports/openings.h).
// Thread-safe. Blocks on the file systems of the exports.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/objects/file_system.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

struct StoreParts;

class ExportDirectories {
 public:
  // Borrowed.
  explicit ExportDirectories(StoreParts& store);

  // Opens every export. Waits at most `within` for their file systems. If an export cannot be
  // served, the error names the export, the reason and the remedy. An export that did not answer
  // in time is opened later: until then requests for it get DELAY. If it then cannot be served,
  // that is logged, and it is tried again. `settle` is called once for each export after it was
  // opened, before requests reach it, on a thread that may wait for it. If a reload removes the
  // export first, that is when a later one adds it again. Call once, before the first
  // request. Needs the server's own identity.
  absl::Status OpenAll(std::function<void(size_t export_index)> settle, absl::Duration within);
  // From now on, no export that cannot be served is tried again.
  void EndOpening();
  // Waits for the exports that are still being opened. Returns false if there are some at
  // `deadline`. The destructor waits without limit.
  bool AwaitOpened(absl::Time deadline) const;
  std::vector<size_t> Opening() const;  // their indices

  // Opens an export, and settles its journals unless they are. One thread at a time for each
  // export.
  absl::Status OpenAndSettle(size_t export_index);

  // Makes an export lead to the directory that its path leads to now. Logs a change, and why the
  // new directory cannot be served. OK: the export has a directory. DELAY: try again. NOENT, ACCES:
  // the path leads to nothing, or to what cannot be served. Blocks on the file system, except on
  // one that may hang unless the export is known to.
  wire::DafsStatus FollowPath(size_t export_index);
  // Does so for all exports; for those that may hang, on their own threads. So finds exports whose
  // path leads to another directory than before, and serves that directory from then on. Does
  // nothing while another thread does it. Call regularly on a thread that may wait.
  void FollowPaths();

  // If the export is removed, releases the descriptors of its file systems, so that these can be
  // unmounted. Blocks on them.
  void ReleaseIfRemoved(size_t export_index);
  // Releases the descriptors of file systems that are retired.
  void ReleaseFileSystems(const std::vector<const FileSystem*>& retired);

 private:
  // Opens the directory to which the path of an export leads now, and serves it. One thread at a
  // time for each export. Needs the server's own identity.
  absl::Status OpenExport(size_t export_index);
  // OpenExport, at the start.
  absl::Status OpenFirst(size_t export_index);
  wire::DafsStatus Reopen(size_t export_index);
  // Logs once that the path of an export leads nowhere, or no longer does.
  void NoteLeads(size_t export_index, bool nowhere);

  StoreParts& store_;
  // Called once for each export of the start, after it was opened.
  std::function<void(size_t export_index)> settle_;
  // By export of the start: settle_ was called. Used by the thread that opens the export.
  std::vector<uint8_t> is_settled_;
  // The state of FollowPath for an export.
  struct PathState {
    absl::Mutex opening;                           // held while the file system is accessed
    std::string refusal ABSL_GUARDED_BY(opening);  // logged last; empty: none
    std::atomic<bool> nowhere{false};              // logged; publishes no other data
    std::atomic<bool> following{false};            // its own threads have not ended it yet
  };
  std::vector<PathState> paths_;        // by export
  std::atomic<bool> following_{false};  // FollowPaths has not returned yet
};

}  // namespace dafs::server
