// The state that the workers of a mount share: server addresses, session options, the client's
// identity, and the credentials registered with the server.
// Spec: 3.1.1.3 (client identifiers), 3.1.2.2 (session options), 3.1.1.2 (credentials).
// Thread-safe. A Client must outlive its Files and its LeaseKeeper.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "client/state/credentials.h"
#include "client/state/data/lost_data.h"
#include "client/state/data/uncommitted.h"
#include "client/state/delegations.h"
#include "client/state/file_owners.h"
#include "client/state/id_names.h"
#include "client/state/locks.h"
#include "client/state/opens.h"
#include "client/state/promises.h"
#include "client/state/records/session_records.h"
#include "client/state/records/state_recorder.h"
#include "client/state/server/failover.h"
#include "client/state/server/paths.h"
#include "client/state/server/root_handle.h"
#include "client/state/server/token_thread.h"
#include "wire/auth/exchange.h"
#include "wire/dat/address.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Files;

// AUTH_NONE, AUTH_DEFAULT, AUTH_GSS or AUTH_TEXT (3.1.1.1). kAuto takes AUTH_NONE or AUTH_DEFAULT:
// the first one that the server offers, in that order.
enum class Auth : uint8_t { kAuto, kNone, kDefault, kGss, kText };

// Whether the server accesses buffers through a memory window for each request (wire/dat/dat.h).
// kAuto: if Domain::windows() is OK. kOn: whenever the transport has windows.
enum class Windows : uint8_t { kOff, kAuto, kOn };

wire::ByteOrder HostByteOrder();

struct ClientOptions {
  // The server's, from dat::ResolveHost. Paths (client/state/server/paths.h) says in which order
  // they are tried.
  std::vector<dat::Address> addresses;
  // The transports, tried in order, each with every address: rdma before tcp for proto=auto. Must
  // outlive the client.
  std::vector<dat::Provider*> providers;
  std::string left_out;     // for messages: why a requested transport is missing
  std::string device;       // -o rdmadev=; empty: by route
  std::string server_name;  // for messages: "server:/export"
  std::string mount_point;  // for messages and dafsctl; may be empty

  // The components of the export path under the server's root: {"home"} for /home; empty: the root.
  std::vector<std::string> export_path;

  // The same for one mount across restarts: machine id, server, export, mount point (1..1024
  // bytes).
  std::string client_id_string;
  // New for each run of the program. Zero: a random one is made.
  wire::Verifier client_verifier;
  // The name of this client in fencing lists (4.4.4): at most 1024 bytes. Empty: it has none, and
  // no list admits it.
  std::string fence_id;
  Auth auth = Auth::kAuto;
  // Makes the tokens of kGss: by Kerberos (wire/auth/gss/kerberos.h), or by the program. For kText,
  // of client/state/server/password_initiator.h.
  std::shared_ptr<auth::Initiator> initiator;
  // With kGss: a server that does not let this client act for other users is an error. Otherwise
  // all requests are made by the user that the client has proven to be (3.1.1.1.2).
  bool must_be_trusted = false;
  // The client is one user, who may have no ticket. While this side cannot prove who it is, or the
  // server refuses that, requests fail with kUnauthenticated (auth::HaveExpired: the ticket has
  // expired). Otherwise they wait. A request after 5 s tries again.
  bool fails_without_credentials = false;

  wire::ByteOrder byte_order = HostByteOrder();
  bool checksums = false;              // message and direct checksums, WIRE 6
  uint32_t max_request_size = 16384;   // 1024 at least
  uint32_t max_response_size = 16384;  // 1024 at least
  // Slots of a session: the client's maximum; the server may grant fewer.
  uint32_t max_requests = 64;
  uint32_t max_credentials = 128;
  // Requests an RDMA-read Channel (3.1.2.3.4): a second connection of each session, over which the
  // server reads the data of direct writes. A server may demand one in any case.
  bool rdma_read_channel = false;
  // Requests a Back-control Channel (3.1.2.3.3): another connection of each session, over which the
  // server reports completed batch items (client/batch/batch.h).
  bool back_control_channel = false;
  // The control session (client/status/lease_keeper.h) has a Back-control Channel in any case, and
  // requests announcements of free locks (client/state/locks.h).
  bool callbacks = false;
  // With `callbacks`: also requests promises (client/state/promises.h).
  bool promises = true;
  // With promises: requests delegations with opens (client/state/delegations.h). Opens of one file
  // must then have different owners.
  bool delegations = false;
  // Memory windows for data buffers, application memory and batch items. A session has none if
  // either channel above is requested.
  Windows windows = Windows::kAuto;
  // Requests that reads and listings do not update access times (kExtensionKeepAtime).
  bool keep_atime = false;
  // The numbers of this machine for owners that the server sends as names (WIRE R90). Null: the
  // caller gets the text of the server.
  std::shared_ptr<IdNames> id_names;
  // libdafs: memory for references to blocks of a server's exported cache, which are then read
  // without a request (client/library/reference_reads.h). Allocated for each session. 0: none.
  size_t reference_directory_bytes = 0;
  // Requests that the server caches responses to changes, so that a lost one can be fetched (5.2).
  bool response_cache = true;

  BufferPoolOptions buffers;          // per worker
  uint32_t read_bytes = 1u << 20;     // rsize: the largest single READ
  uint32_t write_bytes = 1u << 20;    // wsize
  uint32_t inline_read_bytes = 4096;  // reads up to this size are inline if they fit
  // Writes up to this size use WRITE_INLINE. Copying three pages costs less than the round trip in
  // which the server reads them (scripts/bench write-8k).
  uint32_t inline_write_bytes = 12288;
  // Memory of the mount for uncommitted written data. The client sends COMMIT when half is in
  // use.
  size_t uncommitted_bytes = size_t{64} << 20;

  // false (hard): calls wait for the server without limit. true (soft): calls fail with
  // kDeadlineExceeded after `timeout`.
  bool soft = false;
  absl::Duration timeout = absl::Seconds(60);
  // A connection with an outstanding request is given up after receiving nothing for this long.
  absl::Duration silence = absl::Seconds(60);
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration backoff_least = absl::Milliseconds(100);
  absl::Duration backoff_most = absl::Seconds(15);
  // A path that has failed is tried again after this long, then after pauses of up to 12 times
  // this.
  absl::Duration path_retry = absl::Seconds(5);
  // After a loss, the alternate locations of the server are tried as soon as all of its addresses
  // have refused, or after this long.
  absl::Duration failover_after = absl::Seconds(10);
};

// Values that the server reported about the export; zero: not known yet.
struct Limits {
  // Takes those of another client of the same export.
  void CopyFrom(const Limits& other);

  std::atomic<uint64_t> max_read{0};
  std::atomic<uint64_t> max_write{0};
  std::atomic<uint64_t> max_append{0};
  std::atomic<uint64_t> lease_seconds{0};
  // Set after NOTSUPP for READ_DIRECT, a direct write or READDIR_DIRECT: the server has none (R61).
  std::atomic<bool> no_direct_reads{false};
  std::atomic<bool> no_direct_writes{false};
  std::atomic<bool> no_direct_readdir{false};
  // Set after NOTSUPP for the private procedure.
  std::atomic<bool> no_open_handle{false};
  std::atomic<bool> no_open_execute{false};
  std::atomic<bool> no_make_node{false};
  std::atomic<bool> no_open_owner{false};
  // wire::kExtension... flags that the latest session agreed on; 0: the server knows none.
  std::atomic<uint64_t> extensions{0};
  // The server maps every user of this machine to one user (kExtensionSquashed), or does so in some
  // of the exports below a root above the exports (kExtensionSquashedInPart). Set by Files::Mount.
  std::atomic<bool> squashed{false};
  std::atomic<bool> squashed_in_part{false};
};

class Client {
 public:
  // Checks the options. kInvalidArgument names the wrong one.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const ClientOptions& options() const { return options_; }
  Paths& paths() { return paths_; }
  SessionRecords& sessions() { return sessions_; }
  Credentials& credentials() { return credentials_; }
  Opens& opens() { return opens_; }
  Delegations& delegations() { return delegations_; }
  Uncommitted& uncommitted() { return uncommitted_; }
  // Records the tables above from now on, and keeps written data in memory of `recorder`, which
  // outlives this. Before the first worker, once.
  void RecordIn(StateRecorder* recorder);
  StateRecorder* recorder() const { return recorder_; }  // null: there is none
  LostData& lost_data() { return lost_data_; }
  // Atomic only because workers read them while the first Mount stores them. They order no other
  // memory.
  Limits& limits() { return limits_; }
  Locks& locks() { return locks_; }
  RootHandle& root() { return root_; }
  Failover& failover() { return failover_; }
  Promises& promises() { return promises_; }
  TokenThread& token_thread() { return token_thread_; }
  FileOwners& owners() { return owners_; }

  // The workers of this client, for statistics. Files calls both.
  void AddWorker(Files* files) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveWorker(Files* files) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `visit` for each worker, under the mutex. `visit` must not block: it posts to the
  // worker's loop.
  template <class F>
  void ForEachWorker(F&& visit) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (Files* files : workers_) visit(*files);
  }

  // Records that a request sent at `sent` was answered, on any session. The server renewed the
  // client's leases in between (4.4.1.2). Times are Loop::Now() of any loop.
  void NoteActivity(absl::Time sent, absl::Time answered);
  // The latest `sent`. The leases were valid at least until then.
  absl::Time last_activity() const {
    return absl::FromUnixNanos(last_activity_.load(std::memory_order_relaxed));
  }
  // The length of a lease; a default until the server reports its own.
  absl::Duration lease() const;
  // Whether the leases may have expired and been renewed since the last call of this function.
  bool TakeLapse() { return lapsed_.exchange(false, std::memory_order_relaxed); }

  // A fencing list has refused a request (wire::kSpcondFenced). Logs the first of those that follow
  // each other within a minute.
  void NoteFencedOff(absl::Time now);

 private:
  explicit Client(ClientOptions options);

  const ClientOptions options_;
  Paths paths_{options_.server_name, options_.providers, options_.addresses, options_.path_retry};
  SessionRecords sessions_;
  Credentials credentials_;
  Opens opens_;
  Uncommitted uncommitted_;
  StateRecorder* recorder_ = nullptr;
  LostData lost_data_;
  Limits limits_;
  Locks locks_;
  RootHandle root_;
  Failover failover_{options_.server_name, root_};
  Promises promises_;
  Delegations delegations_{opens_, locks_, promises_, [this] { return last_activity(); }};
  TokenThread token_thread_;
  FileOwners owners_{options_.id_names, options_.server_name};
  // They order no other memory.
  std::atomic<int64_t> last_activity_{0};  // nanoseconds
  std::atomic<bool> lapsed_{false};
  std::atomic<int64_t> last_fenced_off_{0};  // nanoseconds
  absl::Mutex mutex_;
  std::vector<Files*> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
