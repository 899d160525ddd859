// What a session reports about itself to the administrator. Values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
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

}  // namespace dafs::server
