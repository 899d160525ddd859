// The administrator's options of a server: exports, addresses, and the limits that keep one client
// from using up the machine. The defaults are those of `dafsd`.
// Spec: 3.1.2.2 (session options), WIRE 11.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/loop/cpu_latency.h"
#include "server/audit/audit_options.h"
#include "server/store/access/exports/store_options.h"
#include "server/store/objects/export.h"
#include "wire/auth/exchange.h"
#include "wire/auth/idmap/id_map.h"
#include "wire/dat/address.h"
#include "wire/dat/tls.h"

namespace dafs::server {

enum class Transport : uint8_t { kTcp, kRdma };  // the words of --listen and -o proto=

// Whether client memory is read on a separate channel (3.1.2.3.5): for no client, for those that
// request it, or for all.
enum class RdmaReadChannel : uint8_t { kNever, kOffered, kRequired };

inline constexpr int kMostRecallSeconds = 60;  // of recall_time

// `--listen tcp:ADDR:PORT`. Port 0 lets the system choose (tests).
struct ListenAddress {
  Transport transport = Transport::kTcp;
  dat::Address address;
};

struct ServerOptions {
  std::vector<Export> exports;  // at the start; see Store::exports
  // Reads the exports again, for a reload. Null: there is nothing to read them from.
  std::function<absl::StatusOr<std::vector<Export>>()> read_exports;
  // Adds to a message about an export where it is configured. May be null.
  std::function<std::string(std::string_view message)> place_export;
  // The certificates of the TCP transport; no cert_file: none. The transport reads them.
  dat::TlsOptions tls = {.is_server = true};
  // Reads them again, for a reload. Null: there are none.
  std::function<absl::Status()> reload_tls;
  // Accepts Kerberos; null: clients cannot authenticate by it.
  std::shared_ptr<auth::Acceptor> acceptor;
  // The principals that may act for any user (server/store/objects/principal_pattern.h): machines.
  std::vector<std::string> trusted;
  // Names owners and groups on the wire, and finds the users of principals. Null: owners are
  // numbers, and krb5.conf maps principals.
  std::shared_ptr<auth::IdMap> ids;
  // Of server/clients/passwords.h; empty: clients cannot authenticate by a password.
  std::string password_file;
  std::vector<ListenAddress> listen;  // empty: 127.0.0.1 and ::1, port 20149, by TCP
  std::string state_dir;              // exists; two servers never share one
  // Names the servers of which each may take the place of another (WIRE 9.5), 1..255 printable
  // characters. Empty: this server alone.
  std::string cluster_id;
  // The path of the control socket (server/admin); empty: none. If it cannot be made, that is an
  // error, or only logged if the administrator has not named the path.
  std::string admin_socket;
  bool is_admin_socket_default = false;

  uint32_t workers = 0;       // threads with a loop each; 0: one per CPU, at most 16
  uint32_t pool_threads = 8;  // threads for work that waits for a disk
  absl::Duration spin = absl::Microseconds(50);  // time that a worker polls before it sleeps
  CpuLatencyOption cpu_latency;                  // limit for idle CPUs while a worker is busy

  AuditOptions audit;
  absl::Duration slow;  // requests that take this long are logged; zero: none

  uint32_t max_requests = 64;                // credits (Nreq) of one session, at most
  uint32_t default_requests = 16;            // for a client without a preference
  uint32_t max_message_bytes = 68 << 10;     // request and response; 64 KiB of data and its header
  uint32_t default_message_bytes = 8 << 10;  // for a client without a preference
  uint32_t max_transfer_bytes = 1 << 20;     // of one READ, WRITE or APPEND
  uint32_t max_batch_requests = 1024;        // outstanding in asynchronous batches of a session
  uint32_t max_credentials = 4096;           // of one client
  uint32_t default_credentials = 1024;

  RdmaReadChannel rdma_read_channel = RdmaReadChannel::kOffered;

  uint32_t max_sessions = 1024;
  uint32_t max_sessions_per_address = 512;          // 100 mounts with nconnect=4 take 500
  size_t message_memory_bytes = size_t{256} << 20;  // request and response buffers, all sessions
  size_t direct_memory_bytes = size_t{32} << 20;    // RDMA buffers of each worker

  Stable stable = Stable::kProcess;
  // Response Caches (5.2): bytes of all sessions together, and the time that those of lost sessions
  // are kept.
  size_t response_cache_bytes = size_t{256} << 20;
  absl::Duration response_cache_time = absl::Hours(1);

  // The start waits this long for the file systems of the exports. Exports that have not answered
  // by then are served later.
  absl::Duration open_within = absl::Seconds(2);
  absl::Duration lease_time = absl::Seconds(90);
  absl::Duration grace_time = absl::ZeroDuration();  // after a restart; zero: the lease time
  // The server waits this long for the answer to the announcement of a change. A client that
  // does not answer loses its promises.
  absl::Duration recall_time = absl::Seconds(10);
  Delegations::Options delegations;
  // The old bytes of what was changed under AUTORECOVERY locks. 0: there are no such locks.
  uint64_t undo_space_bytes = uint64_t{1} << 30;
  // Of each export: blocks that clients read by RDMA reads of their own. 0: none.
  uint64_t export_cache_bytes = 0;
  uint32_t max_promises = 262144;  // of one client; 0: the server makes none
  // From the connection to an authenticated session. Limits the cost of silent peers.
  absl::Duration connect_timeout = absl::Seconds(10);
  // A session ends if it has outstanding RDMA operations and none of them completes for this long,
  // or up to twice as long.
  // IwarpOptions::dead_peer_timeout ends connections whose peer acknowledges nothing. Here the
  // client's kernel acknowledges but its program is stuck, and the transfer occupies memory that
  // other sessions need.
  absl::Duration transfer_timeout = absl::Seconds(30);
};

}  // namespace dafs::server
