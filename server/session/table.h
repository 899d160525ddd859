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
#include "server/store/objects/export.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class SessionTable {
 public:
  // Of connections that no export admits, all and from one host: enough for each to be answered
  // why. They never take the place of one that is admitted.
  static constexpr uint32_t kMaxStrangers = 64;
  static constexpr uint32_t kMaxStrangersPerAddress = 8;

  // What a connection is counted as.
  struct Place {
    std::string host;       // its address; of IPv6 the first 64 bits, within which a host chooses
    bool admitted = false;  // by some export
  };
  static Place PlaceOf(const PeerAddress& address, bool admitted);

  SessionTable(uint32_t max_sessions, uint32_t max_sessions_per_address)
      : admitted_{max_sessions, max_sessions_per_address},
        strangers_{kMaxStrangers, kMaxStrangersPerAddress} {}

  // A connection asks to be admitted. kResourceExhausted: the bound it meets, in words.
  absl::Status Admit(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  // The admitted connection is gone.
  void Leave(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);

  // A new identifier, not zero and not to be guessed.
  wire::SessionId Open(wire::ByteOrder order) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The byte order of a session that exists; kNotFound otherwise.
  absl::StatusOr<wire::ByteOrder> Find(const wire::SessionId& session_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  size_t connections() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Room {
    uint32_t most;
    uint32_t most_of_host;
    uint32_t taken = 0;
    absl::flat_hash_map<std::string, uint32_t> by_host = {};
  };
  Room& RoomOf(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return place.admitted ? admitted_ : strangers_;
  }

  mutable absl::Mutex mutex_;
  Room admitted_ ABSL_GUARDED_BY(mutex_);
  Room strangers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::SessionId, wire::ByteOrder> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
