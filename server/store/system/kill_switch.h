// Ends this process, as kill -9 would, at a chosen step of a chosen procedure, for tests of
// recovery. `dafsd --kill-at PROC:STEP[:N]`, N counting from 1. Without --kill-at the check costs
// one load of a constant zero.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

// In the order in which one request meets them.
enum class KillStep : uint32_t {
  kNever,
  kBefore,    // "before": the journal has nothing of the request
  kIntent,    // "intent": the journal has the intent
  kCalled,    // "called": the system calls have returned
  kMarked,    // "marked": the journal has the status
  kRecorded,  // "recorded": the response is in the journal
  kReplied,   // "replied": the response has been given to the transport

  // Of changes under an AUTORECOVERY lock (undo_log.h). PROC is WRITE_INLINE for every change, LOCK
  // for an undo, LOCKU for the end of a lock.
  kUndoSaved,    // "undo_saved": the old bytes are on the disk
  kUndoRow,      // "undo_row": so is their row
  kUndoWritten,  // "undo_written": they are in the file again
  kUndoSynced,   // "undo_synced": the file is on the disk
  kUndoDeleted,  // "undo_deleted": the rows are gone
};

// kInvalidArgument: not PROC:STEP[:N].
absl::Status ArmKillSwitch(std::string_view text);

// Publishes nothing: set before any thread exists.
inline constinit std::atomic<KillStep> g_kill_step{KillStep::kNever};
void KillIfItIsTime(KillStep step, wire::Proc procedure);

inline void KillPoint(KillStep step, wire::Proc procedure) {
  if (g_kill_step.load(std::memory_order_relaxed) == step) KillIfItIsTime(step, procedure);
}

}  // namespace dafs::server
