// The sessions of the whole server: their number, their hosts, and the session_id of each.
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
  // Limits for connections that no export admits, in all and from one host. They suffice to report
  // the reason to each, and never take the place of an admitted connection.
  static constexpr uint32_t kMaxStrangers = 64;
  static constexpr uint32_t kMaxStrangersPerAddress = 8;

  // The limits that a connection counts against.
  struct Place {
    std::string host;       // of IPv6 the first 64 bits: a host chooses the rest
    bool admitted = false;  // by some export
  };
  static Place PlaceOf(const PeerAddress& address, bool admitted);

  SessionTable(uint32_t max_sessions, uint32_t max_sessions_per_address)
      : admitted_{max_sessions, max_sessions_per_address},
        strangers_{kMaxStrangers, kMaxStrangersPerAddress} {}

  // Counts a new connection. kResourceExhausted: the message names the limit that was reached.
  absl::Status Admit(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  // The admitted connection has ended.
  void Leave(const Place& place) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns a new identifier: not zero, and unpredictable.
  wire::SessionId Open(wire::ByteOrder order) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the byte order of the session; kNotFound if there is none.
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
