// The report of a worker for dafsctl. Plain values. The worker's thread fills them in and posts
// them to the asking thread (client/status/lease_keeper.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "wire/protocol/procedure_totals.h"

namespace dafs::client {

struct SessionReport {
  bool up = false;
  std::string transport;  // "iwarp over TCP, CRC32C off"
  std::string memory;     // "memory windows", or why there are none; empty: no data buffers
  bool memory_by_windows = false;
  uint64_t windows_bound = 0;
  uint64_t windows_ended = 0;  // ended by the client, since no response ended them
  std::string peer;
  std::string passed_over;  // why earlier attempts failed; empty: the first succeeded
  absl::Duration age;
  std::string session_id;  // hexadecimal
  std::string server_id;   // hexadecimal; empty: the server does not say which one it is
  uint32_t instance = 0;
  std::string cluster_id;  // escaped
  bool trusted = false;
  bool checksums = false;
  bool big_endian = false;
  uint32_t max_request_size = 0;
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
  uint32_t max_credentials = 0;
  uint32_t nreq = 0;
  uint32_t target_nreq = 0;
  uint32_t slots = 0;
  uint32_t slots_taken = 0;
  uint32_t waiting_for_slots = 0;
  struct Outstanding {
    std::string procedures;  // "LOOKUP+GETATTR_INLINE"
    absl::Duration age;
  };
  std::vector<Outstanding> outstanding;
};

// A request of the kernel that has no answer yet.
struct PendingOperation {
  std::string operation;  // "READ"
  std::string file;       // the path within the mount, where the file was last found; may be empty
  uint32_t pid = 0;       // 0: unknown
  std::string process;    // its name; empty: unknown
  uint32_t uid = 0;
  absl::Duration age;
};

struct WorkerReport {
  std::string name;
  SessionReport session;
  std::string not_connected;  // why there is no session now
  absl::Duration not_connected_for;
  std::string waiting;  // what operations wait for besides responses
  absl::Duration waiting_for;
  uint64_t fetched = 0;   // responses of lost requests, found in a Response Cache
  uint64_t reissued = 0;  // lost requests that the server had not executed
  uint64_t connects = 0;  // sessions built so far
  BufferPool::Counts buffers;
  wire::CallTotals totals;
  size_t outstanding_operations = 0;
  std::vector<PendingOperation> operations;  // the oldest ones of them, the oldest first
  uint64_t slow_operations = 0;              // so far, see -o slow=
};

}  // namespace dafs::client
