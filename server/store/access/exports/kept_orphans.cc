#include "server/store/access/exports/kept_orphans.h"

#include "server/store/system/identity.h"

namespace dafs::server {

KeptOrphans::KeptOrphans(const std::string& state_dir, bool keeps, const ExportSet& exports,
                         Mounts& mounts, const ExportThreads& threads)
    : mounts_(mounts),
      threads_(threads),
      record_(state_dir),
      orphans_(record_),
      keeps_(exports.capacity()) {
  for (std::atomic<bool>& each : keeps_) each.store(keeps, std::memory_order_relaxed);
}

Orphans& KeptOrphans::Of(const FileSystem& fs) {
  if (!fs.may_hang) return orphans_;
  absl::MutexLock lock(&hanging_mutex_);
  std::unique_ptr<Hanging>& hanging = hanging_[fs.device];
  if (hanging == nullptr) hanging.reset(new Hanging{{}, Orphans(record_)});
  hanging->exports.insert(fs.export_index);
  return hanging->orphans;
}

void KeptOrphans::TakeUp(const FileSystem& fs) {
  if (fs.exported->read_only) return;
  Orphans& orphans = Of(fs);
  orphans.TakeUp(fs);
  if (!Keeps(fs)) SweepEnded(orphans);
}

void KeptOrphans::Sweep(const std::vector<size_t>& ended) {
  for (size_t i : ended) SetKeeps(i, false);
  SweepEnded(orphans_);
  for (size_t i : ended) threads_.Run(i, [this, i] { SweepExport(i); });
}

void KeptOrphans::SweepExport(size_t export_index) {
  RestoreOwnIdentity();
  std::vector<Orphans*> hanging;
  {
    absl::MutexLock lock(&hanging_mutex_);
    for (const auto& [device, each] : hanging_) {
      if (each->exports.contains(export_index)) hanging.push_back(&each->orphans);
    }
  }
  for (Orphans* orphans : hanging) SweepEnded(*orphans);
  for (const OrphanRecord::Entry& entry : record_.entries()) {
    if (mounts_.ExportOf(entry.fshandle) != export_index) continue;
    // If Find opens the file system only now, the function set with OnFound sweeps it.
    const bool found = mounts_.Find(entry.fshandle, entry.subvolume) != nullptr;
    if (!found && mounts_.HasMountOf(entry.fshandle, entry.subvolume)) record_.Remove(entry);
  }
}

}  // namespace dafs::server
