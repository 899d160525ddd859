// What the workers of one mount share: where the server is, how sessions to it are negotiated, who
// the client is, and the credentials registered with the server.
// Spec: 3.1.1.3 (client identifiers), 3.1.2.2 (session options), 3.1.1.2 (credentials).
// Thread-safe. A Client outlives its Files and its LeaseKeeper.
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
#include "client/state/locks.h"
#include "client/state/opens.h"
#include "client/state/root_handle.h"
#include "client/state/uncommitted.h"
#include "wire/dat/address.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Files;

// AUTH_NONE or AUTH_DEFAULT (3.1.1.1); kAuto takes the first the server offers, in that order.
enum class Auth : uint8_t { kAuto, kNone, kDefault };

// Whether the server reaches buffers by a memory window for each request (wire/dat/dat.h). kAuto:
// where Domain::windows() says that it is well; kOn: wherever there are windows.
enum class Windows : uint8_t { kOff, kAuto, kOn };

wire::ByteOrder HostByteOrder();

struct ClientOptions {
  // From dat::ResolveHost; tried in order.
  std::vector<dat::Address> addresses;
  // The transports, tried in order, each at every address: rdma before tcp for proto=auto.
  // Borrowed.
  std::vector<dat::Provider*> providers;
  std::string left_out;     // for messages: why a transport that was wished for is not among them
  std::string device;       // -o rdmadev=; empty: by route
  std::string server_name;  // for messages: "server:/export"
  std::string mount_point;  // for messages and dafsctl; may be empty

  // Components of the export path under the server's root: {"home"} for /home; empty: the root.
  std::vector<std::string> export_path;

  // Stable for one mount over restarts: machine id, server, export, mount point (1..1024 bytes).
  std::string client_id_string;
  // New for each run of the program; zero: random.
  wire::Verifier client_verifier;
  Auth auth = Auth::kAuto;

  wire::ByteOrder byte_order = HostByteOrder();
  bool checksums = false;              // message and direct checksums, WIRE 6
  uint32_t max_request_size = 16384;   // 1024 at least
  uint32_t max_response_size = 16384;  // 1024 at least
  uint32_t max_requests = 64;  // slots of a session: the most we use; the server may give fewer
  uint32_t max_credentials = 128;
  // Asks for an RDMA-read Channel (3.1.2.3.4), a second connection of each session on which the
  // server reads what is written. A server may want one in any case.
  bool rdma_read_channel = false;
  // Asks for a Back-control Channel (3.1.2.3.3), a further connection of each session by which the
  // server reports what batches have done (client/batch/batch.h).
  bool back_control_channel = false;
  // For the buffers of the pool, without either of those channels. Memory of the application and
  // batches need kOff: they are named by their registration.
  Windows windows = Windows::kAuto;
  // Asks that no read or listing moves an access time (kExtensionKeepAtime).
  bool keep_atime = false;
  // Asks the server to keep its answers to changes, so that a lost one can be fetched (5.2).
  bool response_cache = true;

  BufferPoolOptions buffers;          // per worker
  uint32_t read_bytes = 1u << 20;     // rsize: the largest single READ
  uint32_t write_bytes = 1u << 20;    // wsize
  uint32_t inline_read_bytes = 4096;  // reads up to this are READ_INLINE, where a response holds it
  // Writes up to this are WRITE_INLINE: a copy of three pages costs less than the round trip in
  // which the server reads them (scripts/bench write-8k).
  uint32_t inline_write_bytes = 12288;
  // Memory for data that was written and is not committed yet, for the mount; COMMIT when it is
  // full.
  size_t uncommitted_bytes = size_t{64} << 20;

  // hard (default): calls wait for the server for ever. soft: they end with kDeadlineExceeded
  // `timeout` after they were made.
  bool soft = false;
  absl::Duration timeout = absl::Seconds(60);
  // A connection on which a request is out and nothing at all arrives for this long is given up.
  absl::Duration silence = absl::Seconds(60);
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration backoff_least = absl::Milliseconds(100);
  absl::Duration backoff_most = absl::Seconds(15);
};

// What the server said about the export; zero: nothing yet.
struct Limits {
  std::atomic<uint64_t> max_read{0};
  std::atomic<uint64_t> max_write{0};
  std::atomic<uint64_t> max_append{0};
  std::atomic<uint64_t> lease_seconds{0};
  // READ_DIRECT, a direct write, or READDIR_DIRECT was answered with NOTSUPP: the server does none
  // (R61).
  std::atomic<bool> no_direct_reads{false};
  std::atomic<bool> no_direct_writes{false};
  std::atomic<bool> no_direct_readdir{false};
  // The private procedure was answered with NOTSUPP.
  std::atomic<bool> no_open_handle{false};
  std::atomic<bool> no_open_execute{false};
  std::atomic<bool> no_make_node{false};
  std::atomic<bool> no_open_owner{false};
  // wire::kExtension...: what the latest session agreed on; 0 of a server that knows none.
  std::atomic<uint64_t> extensions{0};
  // Every user of this machine is one user there (kExtensionSquashed), or is that in some of the
  // exports below a root above the exports (kExtensionSquashedInPart); as of Files::Mount.
  std::atomic<bool> squashed{false};
  std::atomic<bool> squashed_in_part{false};
};

class Client {
 public:
  // Checks the options. kInvalidArgument says which one is wrong.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const ClientOptions& options() const { return options_; }
  Credentials& credentials() { return credentials_; }
  Opens& opens() { return opens_; }
  Uncommitted& uncommitted() { return uncommitted_; }
  // Atomics only because workers read them while a first Mount still stores them; they publish
  // nothing but themselves.
  Limits& limits() { return limits_; }
  Locks& locks() { return locks_; }
  RootHandle& root() { return root_; }

  // The workers of this client, for statistics. Files registers and unregisters itself.
  void AddWorker(Files* files) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveWorker(Files* files) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls `visit` for each under the mutex: it must not block (post to the worker's loop).
  template <class F>
  void ForEachWorker(F&& visit) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (Files* files : workers_) visit(*files);
  }

  // A request that was sent at `sent` was answered, on any session: at some time in between the
  // server renewed the client's leases (4.4.1.2). Loop::Now() of any loop.
  void NoteActivity(absl::Time sent, absl::Time answered);
  // When the latest of these was sent: till then at least the leases were good.
  absl::Time last_activity() const {
    return absl::FromUnixNanos(last_activity_.load(std::memory_order_relaxed));
  }
  // How long a lease is, as far as is known.
  absl::Duration lease() const;
  // Whether the leases may have run out, and been there again, since this was asked last.
  bool TakeLapse() { return lapsed_.exchange(false, std::memory_order_relaxed); }

 private:
  explicit Client(ClientOptions options);

  const ClientOptions options_;
  Credentials credentials_;
  Opens opens_;
  Uncommitted uncommitted_;
  Limits limits_;
  Locks locks_;
  RootHandle root_;
  // Both publish nothing but themselves.
  std::atomic<int64_t> last_activity_{0};  // nanoseconds
  std::atomic<bool> lapsed_{false};
  absl::Mutex mutex_;
  std::vector<Files*> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
