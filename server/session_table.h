// The sessions of the whole server: how many there are, from where, and which session_id is whose.
// Spec: 3.1.2.1 (session identifier), 6.2.5 (CONNECT_BIND looks a session up).
// Thread-safe; nothing blocks.
#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "wire/types.h"

namespace dafs::server {

class SessionTable {
 public:
  SessionTable(uint32_t max_sessions, uint32_t max_sessions_per_address)
      : max_sessions_(max_sessions), max_per_address_(max_sessions_per_address) {}

  // A connection from `host` asks to be let in. kResourceExhausted: the bound it meets, in words.
  absl::Status Admit(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);
  // The connection that was admitted is gone.
  void Leave(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);

  // A new identifier, not zero and not to be guessed.
  wire::SessionId Open(wire::ByteOrder order) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The byte order of a session that exists; kNotFound otherwise.
  absl::StatusOr<wire::ByteOrder> Find(const wire::SessionId& session_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  size_t connections() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const uint32_t max_sessions_;
  const uint32_t max_per_address_;
  mutable absl::Mutex mutex_;
  uint32_t connections_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, uint32_t> by_host_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::SessionId, wire::ByteOrder> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
