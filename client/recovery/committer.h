// COMMIT, and what it is told about: the data of unstable writes is kept
// (client/state/uncommitted.h) until it is safe, and written again when the server lost it.
// Spec: 6.5.8, 6.5.38: data written under another verifier than COMMIT's may be lost.
// Belongs to the thread of its loop; one for each worker. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/recovery/data_target.h"
#include "client/recovery/runner.h"
#include "client/state/uncommitted.h"
#include "runtime/loop.h"
#include "runtime/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Whether the server says that the file is gone, and its data with it.
bool IsGone(const absl::Status& status);

class Committer {
 public:
  // Outlives it.
  explicit Committer(Runner& runner);
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;
  void Shutdown() { runner_.loop().Cancel(std::exchange(timer_, 0)); }

  // Waits until `file` may be written.
  dat::Task<absl::Status> BeginWrite(const wire::FileHandle& file);
  // Keeps a part of what was written unstable: in `memory`, which holds it, or where that is null
  // as a copy. False: there is no room even after COMMIT.
  dat::Task<bool> Keep(const DataTarget& target, uint64_t offset, std::span<const std::byte> data,
                       std::shared_ptr<const void> memory, wire::Verifier verifier);
  // Commits what is kept, while nobody waits for it.
  void CommitSoon();

  // COMMIT until nothing is left that the server lost meanwhile; of the whole file or, where
  // nothing is kept of it, of a range (`size` 0: to the end). `can_wait`: nobody waits for it, so
  // it leaves with the next request.
  dat::Task<absl::StatusOr<wire::Verifier>> CommitAll(const Identity& who,
                                                      const wire::FileHandle& file, uint64_t offset,
                                                      uint32_t size, bool can_wait = false);
  // Commits the files with uncommitted data from `before` that time.
  dat::Task<void> CommitOld(absl::Time before);

  // A server that may have been restarted: writes again what it has lost, before anything else can
  // see that it has. Each worker does so for itself, and waits for what another is writing again.
  void StartRestoring();
  bool restoring() const { return restoring_; }
  // What is called when that is done.
  void OnRestored(std::function<void()> restored) { restored_ = std::move(restored); }

 private:
  dat::Task<absl::StatusOr<wire::Verifier>> CommitOnce(const Identity& who,
                                                       const wire::FileHandle& file,
                                                       uint64_t offset, uint32_t size, bool* safe,
                                                       bool can_wait = false);
  dat::Task<absl::Status> WriteAgain(wire::FileHandle file, wire::Verifier verifier);
  dat::Task<absl::StatusOr<uint32_t>> WritePieceAgain(wire::FileHandle file,
                                                      const Uncommitted::Piece& piece);
  void CommitLater(absl::Duration delay, absl::Duration age);
  dat::Task<void> CommitEarly();
  void GiveUpData(const wire::FileHandle& file, const absl::Status& why);
  dat::Task<void> Restore();
  dat::Task<bool> RestoreFiles();

  Runner& runner_;
  Connection& connection_;
  Uncommitted& store_;
  std::function<void()> restored_;
  dat::Loop::TimerId timer_ = 0;  // for data that is uncommitted for long
  uint32_t kept_ = 0;             // unstable writes; counts around
  bool committing_early_ = false;
  bool restoring_ = false;
  uint64_t restarts_ = 0;  // of the server, seen so far
};

}  // namespace dafs::client
