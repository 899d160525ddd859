// The clients that this instance of the server knows: who they said they are, their credentials,
// and their leases.
// Spec: 3.1.1.3 (client identifiers, cases A, B, C), 6.2.8 (how long credentials live), 4.4.1
// (leases); WIRE R80.
//
// Spec gap: DAFS_AUTH_NONE and DAFS_AUTH_DEFAULT name no principal. Here it is the host that a
// client connects from, together with the method. Several addresses of one host count as one to a
// client that knows the verifier of the instance (case B); a new verifier (case C), which gives up
// the old instance's state, must come from the old instance's address.
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/credentials.h"
#include "wire/types.h"

namespace dafs::server {

// As whom a client authenticated.
struct Principal {
  wire::AuthType method = wire::AuthType::kNone;
  PeerAddress host;
  friend bool operator==(const Principal&, const Principal&) = default;
};

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

  // Any request renews the leases of its client.
  void Renew(absl::Time now) {
    renewed_ns_.store(absl::ToUnixNanos(now), std::memory_order_relaxed);
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
  bool holds_state_ = false;  // may hold opens that expiry has to release
  uint32_t sessions_ = 0;     // authenticated and connected
  Principal principal_;
};

class ClientTable {
 public:
  struct Options {
    uint32_t max_credentials = 4096;
    uint32_t default_credentials = 1024;
    absl::Duration lease_time = absl::Seconds(90);
  };
  explicit ClientTable(const Options& options);

  // CLIENT_CONNECT: the client that (client_id_string, verifier) stands for, new or known. A new
  // one is nobody yet: it takes its name when it is confirmed.
  std::shared_ptr<Client> Connect(const std::string& client_id_string,
                                  const wire::Verifier& verifier, uint32_t max_credentials)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A session of `client` has authenticated as `principal`. `replaced` is the old instance whose
  // state is to be released now, if there is one. kClidInUse: the name belongs to another
  // principal.
  wire::DafsStatus Confirm(const std::shared_ptr<Client>& client, const Principal& principal,
                           absl::Time now, std::shared_ptr<Client>* replaced)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A session that Confirm let in is gone.
  void SessionClosed(const std::shared_ptr<Client>& client) ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets the clients whose lease has run out and that have no session; of those that have, only
  // the state goes. Returns the ids whose opens are to be released.
  std::vector<wire::ClientId> Expire(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::pair<std::string, wire::Verifier>;

  const Options options_;
  mutable absl::Mutex mutex_;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<Client>> confirmed_ ABSL_GUARDED_BY(mutex_);
  // Connected and not yet authenticated: owned by their sessions alone, so that they go with them.
  std::map<Key, std::weak_ptr<Client>> unconfirmed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
