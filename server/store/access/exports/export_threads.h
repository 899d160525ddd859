// Where work on an export runs. Work on an export that may hang must run where nothing else waits
// for it. Thread-safe; nothing blocks.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "server/store/access/exports/pseudo_tree.h"
#include "server/store/objects/mounts.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class ExportThreads {
 public:
  // Both are borrowed.
  ExportThreads(const Mounts& mounts, const PseudoTree& pseudo)
      : mounts_(mounts), pseudo_(pseudo) {}

  // The index of the export of a filehandle, if a file system in the export may hang. The handle
  // need not be genuine.
  std::optional<size_t> ExportThatMayHang(const wire::FsHandle& fshandle) const {
    return mounts_.ExportThatMayHang(fshandle);
  }
  // Whether a directory with this FSHandle is above the exports, and a path from it may lead into
  // an export that may hang. Cheap.
  bool IsAboveWhatMayHang(const wire::FsHandle& fshandle) const {
    return mounts_.any_may_hang() && fshandle == pseudo_.Get().fshandle();
  }
  // The index of the export that `path` leads to from a directory of the pseudo file system, if the
  // export may hang.
  std::optional<size_t> ExportThatMayHang(const wire::FileHandle& directory,
                                          std::span<const std::string> path) const;

  // Sets how work on an export that may hang is executed. `run` returns at once and executes the
  // work where only that export waits. Call before the first request. `run` outlives all requests.
  using RunForExport = std::function<void(size_t export_index, absl::AnyInvocable<void()> work)>;
  void SetRun(RunForExport run) { run_ = std::move(run); }

  // Whether Run hands over the work on this export.
  bool HandsOver(size_t export_index) const {
    return run_ != nullptr && mounts_.MayHang(export_index);
  }
  // Runs `work` on an export: at once, or, if the export may hang, on its own threads, perhaps
  // later.
  void Run(size_t export_index, absl::AnyInvocable<void()> work) const;

 private:
  const Mounts& mounts_;
  const PseudoTree& pseudo_;
  RunForExport run_;  // null: runs everything at once
};

}  // namespace dafs::server
