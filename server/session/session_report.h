// What a session and a worker report about themselves to the administrator. Values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "wire/protocol/procedure_totals.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Since the start of the session.
struct Traffic {
  uint64_t requests = 0;
  uint64_t received_bytes = 0;  // messages, and data that the server has read from the client
  uint64_t sent_bytes = 0;      // messages, and data that the server has written to the client
};

struct SessionReport {
  wire::ClientId client_id;
  std::string peer;       // address and port
  std::string transport;  // of its Operation Channel
  absl::Duration age;
  Traffic traffic;
};

// What the sessions of one worker have done since the start of the server.
struct WorkerCounts {
  wire::CallTotals totals;
  uint64_t sessions_opened = 0;  // whose client has authenticated
  uint64_t sessions_lost = 0;    // of those: ended without DISCONNECT
  uint64_t slow_operations = 0;  // see ServerOptions::slow

  void Merge(const WorkerCounts& other) {
    totals.Merge(other.totals);
    sessions_opened += other.sessions_opened;
    sessions_lost += other.sessions_lost;
    slow_operations += other.slow_operations;
  }
};

}  // namespace dafs::server
