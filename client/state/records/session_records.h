// The sessions of a client whose requests the server may still execute, in the record for the
// program that continues the client after a kill (docs/restart.md). That program must not send a
// request before the server has ended the sessions of the killed one: a WRITE or an unlock that is
// still queued there would otherwise be executed after what replaced it.
// Thread-safe. Nothing blocks.
#pragma once

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "client/state/records/state_recorder.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class SessionRecords {
 public:
  struct Session {
    wire::SessionId session_id;
    wire::AuthType auth = wire::AuthType::kNone;
  };

  // As in Client::RecordIn.
  void RecordIn(StateRecorder* recorder) ABSL_LOCKS_EXCLUDED(mutex_);

  // Call when a session is established, before the first request of a program is sent on it.
  void Established(const Session& session) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server has ended the session: it executes no further request of it.
  void Ended(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds a session of a killed program. Before the first worker.
  void AddLeft(const Session& session) ABSL_LOCKS_EXCLUDED(mutex_);
  // A session of a killed program that has not ended.
  std::optional<Session> FindLeft() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    wire::AuthType auth = wire::AuthType::kNone;
    bool is_left = false;
    StateRecorder::Slot slot = 0;
  };
  void Add(const Session& session, bool is_left) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  StateRecorder* recorder_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::flat_hash_map<wire::SessionId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
