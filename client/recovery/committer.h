// Sends COMMIT, and writes data of unstable writes again if the server lost it. The data is kept in
// client/state/data/uncommitted.h until then.
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
#include "client/recovery/calls/data_target.h"
#include "client/recovery/request_executor.h"
#include "client/state/data/uncommitted.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Whether `status` is the server's response that the file, and so its data, no longer exists.
bool IsGone(const absl::Status& status);

class CommitSchedule;

class Committer {
 public:
  // `executor` must outlive the committer.
  explicit Committer(RequestExecutor& executor);
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;
  // Call before the first write. `schedule` must outlive this.
  void ScheduleBy(CommitSchedule& schedule) { schedule_ = &schedule; }

  // Waits until `file` may be written. It may not while its data is being written again.
  Task<absl::Status> BeginWrite(const wire::FileHandle& file);
  // Keeps `data`, which was written unstable at `offset`. `memory` holds the data; if null, the
  // data is copied. Returns false if there is no room even after a COMMIT.
  Task<bool> Keep(const DataTarget& target, uint64_t offset, std::span<const std::byte> data,
                  std::shared_ptr<const void> memory, wire::Verifier verifier);
  // Records that `bytes` bytes, which the server answered as DATA_SYNC, need a COMMIT.
  void NeedCommit(const wire::FileHandle& file, const Identity& user, uint64_t bytes);
  // Starts to commit everything that is kept. Does not wait.
  void CommitSoon();

  // Sends COMMIT and writes lost data again, until nothing is lost. If data did not reach the disk
  // (EIO and the like), also records that in LostData. COMMIT covers the whole file if the client
  // knows of data that needs one, otherwise the range (`size` 0: to the end).
  Task<absl::StatusOr<wire::Verifier>> CommitAll(const Identity& user, const wire::FileHandle& file,
                                                 uint64_t offset, uint32_t size);
  // The same as its last writer, with no caller that waits for the result: a loss is recorded once
  // until a COMMIT succeeds. `can_wait`: the request may leave with the next one. For
  // CommitSchedule.
  Task<absl::Status> CommitInBackground(wire::FileHandle file, bool can_wait);

  // Call when the server may have restarted: writes again what the server lost, before another
  // operation can see the loss. Each worker calls this. A worker waits for files that another
  // worker is writing again.
  void StartRestoring();
  bool restoring() const { return restoring_; }
  // `restored` runs when the restoring ends.
  void OnRestored(std::function<void()> restored) { restored_ = std::move(restored); }

 private:
  Task<absl::StatusOr<wire::Verifier>> CommitOnce(const Identity& user,
                                                  const wire::FileHandle& file, uint64_t offset,
                                                  uint32_t size, bool* safe, bool can_wait = false);
  Task<absl::StatusOr<wire::Verifier>> CommitRounds(const Identity& user,
                                                    const wire::FileHandle& file, uint64_t offset,
                                                    uint32_t size, bool once, bool can_wait);
  void NoteLoss(const wire::FileHandle& file, const absl::Status& why, bool once);
  Task<absl::Status> WriteAgain(wire::FileHandle file, wire::Verifier verifier);
  Task<absl::StatusOr<uint32_t>> WritePieceAgain(wire::FileHandle file,
                                                 const Uncommitted::Piece& piece);
  void GiveUpData(const wire::FileHandle& file, const absl::Status& why);
  Task<void> Restore();
  Task<bool> RestoreFiles();

  RequestExecutor& executor_;
  SessionKeeper& session_keeper_;
  Uncommitted& store_;
  std::function<void()> restored_;
  CommitSchedule* schedule_ = nullptr;
  uint32_t kept_ = 0;  // unstable writes so far; wraps around
  bool restoring_ = false;
  uint64_t restarts_ = 0;  // calls of StartRestoring
};

}  // namespace dafs::client
