// The clients that this instance of the server knows: who they said they are, their credentials,
// and their leases.
// Spec: 3.1.1.3 (client identifiers, cases A, B, C), 6.2.8 (how long credentials live), 4.4.1
// (leases); WIRE R80.
//
// Spec gap: DAFS_AUTH_NONE and DAFS_AUTH_DEFAULT name no principal. Here it is the host that a
// client connects from, together with the method. Several addresses of one host count as one to a
// client that knows the verifier of the instance (case B). A new verifier (case C), which gives up
// the old instance's state, must come from the old instance's address while that has a lease:
// otherwise it is another machine with the same name, and refused (CLID_INUSE). What is kept
// without a lease is a courtesy that any host may end, since the old one's may have changed.
// A client that no export admits is not entered here. It can hold nothing, so each of its sessions
// is a client of its own, and it takes no name from a client that is admitted.
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clients/client_records.h"
#include "server/clients/credentials.h"
#include "server/clients/principal.h"
#include "server/store/objects/export.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// One client instance: a client_id_string with one client_verifier. Shared by its sessions and the
// table.
class Client {
 public:
  Client(std::string client_id_string, wire::Verifier verifier, wire::ClientId client_id,
         uint32_t max_credentials)
      : client_id_string_(std::move(client_id_string)),
        verifier_(verifier),
        client_id_(client_id),
        credentials_(max_credentials) {}

  const std::string& client_id_string() const { return client_id_string_; }
  const wire::Verifier& verifier() const { return verifier_; }
  const wire::ClientId& client_id() const { return client_id_; }
  Credentials& credentials() { return credentials_; }
  // What it holds; from the time it takes its name.
  Holdings* holdings() { return holdings_.load(std::memory_order_acquire); }

  // Any request renews the leases of its client.
  void Renew(absl::Time now) {
    renewed_ns_.store(absl::ToUnixNanos(now), std::memory_order_relaxed);
    // What was kept as a courtesy is its own again.
    if (holdings()->expired.load(std::memory_order_relaxed) != 0) holdings()->expired = 0;
  }
  absl::Time renewed() const {
    return absl::FromUnixNanos(renewed_ns_.load(std::memory_order_relaxed));
  }
  // A later instance of the same client has taken its place: its sessions end.
  bool superseded() const { return superseded_; }

 private:
  friend class ClientTable;
  const std::string client_id_string_;
  const wire::Verifier verifier_;
  const wire::ClientId client_id_;
  Credentials credentials_;
  std::atomic<int64_t> renewed_ns_{0};   // publishes nothing but itself
  std::atomic<bool> superseded_{false};  // publishes nothing but itself
  // Guarded by the table's mutex, which this class does not see.
  bool confirmed_ = false;
  absl::Time expired_ = absl::InfiniteFuture();  // when its lease was found to have run out
  uint32_t sessions_ = 0;                        // authenticated, and connected or executing
  Principal principal_;
  Holdings unrecorded_{};                          // when there is no room for a record
  std::atomic<Holdings*> holdings_{&unrecorded_};  // publishes that there is a record
};

class ClientTable {
 public:
  struct Options {
    uint32_t max_credentials = 4096;
    uint32_t default_credentials = 1024;
    absl::Duration lease_time = absl::Seconds(90);
    absl::Duration courtesy_time = absl::Hours(1);
    // Opens and credentials kept as a courtesy, of all clients: about 50 MiB. Clients that have
    // been silent longest lose theirs first.
    uint64_t max_courtesy = 32768;
  };
  explicit ClientTable(const Options& options);
  // Before anybody connects; may be null. Outlives the table.
  void SetRecords(ClientRecords* records) { records_ = records; }

  // CLIENT_CONNECT: the client that (client_id_string, verifier) stands for, new or known. A new
  // one is nobody yet: it takes its name when it is confirmed.
  std::shared_ptr<Client> Connect(const std::string& client_id_string,
                                  const wire::Verifier& verifier, uint32_t max_credentials)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The client of one session, which no export admits.
  std::shared_ptr<Client> ConnectStranger(const std::string& client_id_string,
                                          const wire::Verifier& verifier, uint32_t max_credentials)
      ABSL_LOCKS_EXCLUDED(mutex_);

  struct Confirmation {
    wire::DafsStatus status = wire::DafsStatus::kOk;  // kClidInUse: the name is another client's
    std::shared_ptr<Client> replaced;   // the old instance whose state is to be released now
    std::optional<PeerAddress> holder;  // the host of the client that has the name
  };
  // A session of `client` has authenticated as `principal`.
  Confirmation Confirm(const std::shared_ptr<Client>& client, const Principal& principal,
                       absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // What `replaced` held has been released, but for what its last requests may still open.
  void Released(const std::shared_ptr<Client>& replaced) ABSL_LOCKS_EXCLUDED(mutex_);
  // A session that Confirm let in is gone, and nothing of it is executed any more.
  void SessionClosed(const std::shared_ptr<Client>& client) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of clients whose lease has run out: what they hold is kept as a courtesy until somebody wants
  // it (4.4.1.2), or for courtesy_time, or until more than max_courtesy is so
  // kept; but not if there are locks among it. Those that hold
  // nothing and have no session are forgotten. Returns the ids whose opens are to be released.
  std::vector<wire::ClientId> Expire(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::pair<std::string, wire::Verifier>;

  std::shared_ptr<Client> NewClient(const std::string& client_id_string,
                                    const wire::Verifier& verifier, uint32_t max_credentials)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasExpired(const Client& client, absl::Time now) const {
    return client.renewed() + options_.lease_time <= now;
  }
  // Whether a new instance may take the name of `old`.
  bool MayReplace(const Principal& principal, const Client& old, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetReplaced(std::vector<wire::ClientId>* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  ClientRecords* records_ = nullptr;
  mutable absl::Mutex mutex_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<Client>> confirmed_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Client>> replaced_ ABSL_GUARDED_BY(mutex_);
  // Connected and not yet authenticated: owned by their sessions alone, so that they go with them.
  std::map<Key, std::weak_ptr<Client>> unconfirmed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
