// The orphans of all file systems, and how long each export keeps those that clients may still
// reclaim (server/store/objects/orphans.h). Thread-safe. Blocks on the file system.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "server/store/access/exports/export_threads.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/mounts.h"
#include "server/store/objects/orphan_record.h"
#include "server/store/objects/orphans.h"

namespace dafs::server {

class KeptOrphans {
 public:
  // The references are borrowed. `keeps`: the exports keep orphans until SetKeeps or Sweep.
  KeptOrphans(const std::string& state_dir, bool keeps, const ExportSet& exports, Mounts& mounts,
              const ExportThreads& threads);

  // The orphans of a file system. One that may hang has its own, because a lock is held while it is
  // accessed.
  Orphans& Of(const FileSystem& fs);

  // A file system was found: its orphans of an earlier instance can be reclaimed in the grace
  // period. After it, removes them at once.
  void TakeUp(const FileSystem& fs);
  // Whether an export that is about to be served keeps its orphans.
  void SetKeeps(size_t export_index, bool keeps) {
    keeps_[export_index].store(keeps, std::memory_order_relaxed);
  }
  // Removes the orphans in the exports `ended` that no client has reclaimed, now and on file
  // systems that are found later. For exports that may hang, perhaps later.
  void Sweep(const std::vector<size_t>& ended);
  // Orphans::LinkLeft and Orphans::Leave. If the grace period ended and its sweep is over since the
  // caller checked, they remove the file's link at once.
  void LinkLeft(Object& file) {
    Of(file.fs()).LinkLeft(file);
    SweepUnlessKept(file.fs());
  }
  void Leave(Object& file) {
    Of(file.fs()).Leave(file);
    SweepUnlessKept(file.fs());
  }

 private:
  bool Keeps(const FileSystem& fs) const {
    return keeps_[fs.export_index].load(std::memory_order_relaxed);
  }
  void SweepUnlessKept(const FileSystem& fs) {
    if (!Keeps(fs)) SweepEnded(Of(fs));
  }
  void SweepEnded(Orphans& orphans) {
    orphans.Sweep([this](const FileSystem& fs) { return !Keeps(fs); });
  }
  void SweepExport(size_t export_index) ABSL_LOCKS_EXCLUDED(hanging_mutex_);

  Mounts& mounts_;
  const ExportThreads& threads_;
  OrphanRecord record_;
  Orphans orphans_;  // of all file systems that cannot hang
  struct Hanging {
    absl::flat_hash_set<size_t> exports;  // that contain it
    Orphans orphans;
  };
  absl::Mutex hanging_mutex_;
  // By st_dev of file systems that may hang.
  absl::flat_hash_map<uint64_t, std::unique_ptr<Hanging>> hanging_ ABSL_GUARDED_BY(hanging_mutex_);
  // By export: clients may still reclaim opens of its orphans. They publish no other data.
  std::vector<std::atomic<bool>> keeps_;
};

}  // namespace dafs::server
