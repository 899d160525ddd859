// The clients of this instance of the server: their names, their credentials, and their leases.
// Spec: 3.1.1.3 (client identifiers, cases A, B, C), 6.2.8 (how long credentials live), 4.4.1
// (leases); WIRE R80.
//
// Spec gap: DAFS_AUTH_NONE and DAFS_AUTH_DEFAULT name no principal. Here the principal is what the
// connection proves: the names in the client's certificate, otherwise the client's host and whether
// it uses TLS (server/clients/principal.h). A client that knows the verifier of the instance and
// proves the same may connect from any address (case B). A new verifier (case C) ends the old
// instance's state. It must come from the same principal while that instance has a lease. Otherwise
// it is another machine with the same name, and is refused (CLID_INUSE). State kept without a lease
// is a courtesy: any host that proves the same may end it, since the client's address may have
// changed.
//
// A client that no export admits is not entered here. It can hold nothing, so each of its sessions
// is a client of its own, and it takes no name from an admitted client.
//
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
#include "server/clients/fetched_locations.h"
#include "server/clients/principal.h"
#include "server/store/holdings/promises/promises.h"
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
  // The opens and locks of the client; recorded once it has taken its name.
  Holdings* holdings() { return holdings_.load(std::memory_order_acquire); }

  // Renews the lease; any request of the client does.
  void Renew(absl::Time now) {
    renewed_ns_.store(absl::ToUnixNanos(now), std::memory_order_relaxed);
    // The client owns what was kept as a courtesy again.
    if (holdings()->expired.load(std::memory_order_relaxed) != 0) holdings()->expired = 0;
  }
  absl::Time renewed() const {
    return absl::FromUnixNanos(renewed_ns_.load(std::memory_order_relaxed));
  }
  // Its number in Promises; 0: it takes no part.
  Promisee promisee() const { return promisee_.load(std::memory_order_relaxed); }
  void set_promisee(Promisee promisee) { promisee_.store(promisee, std::memory_order_relaxed); }
  FetchedLocations& locations() { return locations_; }
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
  std::atomic<Promisee> promisee_{0};    // publishes nothing but itself
  FetchedLocations locations_;
  // Guarded by the table's mutex, which this class cannot name.
  bool confirmed_ = false;
  absl::Time since_ = absl::InfinitePast();      // when it took its name
  absl::Time expired_ = absl::InfiniteFuture();  // when Expire found its lease expired
  uint32_t sessions_ = 0;                        // authenticated, and connected or executing
  Principal principal_;
  Holdings unrecorded_{};                          // used while there is no record
  std::atomic<Holdings*> holdings_{&unrecorded_};  // publishes that there is a record
};

class ClientTable {
 public:
  struct Options {
    uint32_t max_credentials = 4096;
    uint32_t default_credentials = 1024;
    absl::Duration lease_time = absl::Seconds(90);
    absl::Duration courtesy_time = absl::Hours(1);
    // Limit of opens and credentials kept as a courtesy, of all clients: about 50 MiB. The clients
    // that have been silent longest lose theirs first.
    uint64_t max_courtesy = 32768;
  };
  explicit ClientTable(const Options& options);
  // Receives each client whose lease has expired: it relies on no promise any more. `is_gone`: the
  // client is forgotten, too. Called with the table's mutex held.
  using OnExpired = std::function<void(const Client& client, bool is_gone)>;
  // Call before the first connection.
  void SetOnExpired(OnExpired on_expired) { on_expired_ = std::move(on_expired); }
  // Records whether a client has promises, so that the next instance waits for it. Returns false if
  // that cannot be recorded: then it must have none.
  bool NotePromises(Client& client, bool has_promises) ABSL_LOCKS_EXCLUDED(mutex_);
  // The clients that an earlier instance noted and that have not come back have no promises.
  void EndReturning();
  // Call before the first connection. May be null. Outlives the table.
  void SetRecords(ClientRecords* records) { records_ = records; }

  // CLIENT_CONNECT: returns the client of (client_id_string, verifier), new or known. A new client
  // takes its name only when it is confirmed.
  std::shared_ptr<Client> Connect(const std::string& client_id_string,
                                  const wire::Verifier& verifier, uint32_t max_credentials)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Creates the client of one session that no export admits.
  std::shared_ptr<Client> ConnectStranger(const std::string& client_id_string,
                                          const wire::Verifier& verifier, uint32_t max_credentials)
      ABSL_LOCKS_EXCLUDED(mutex_);

  struct Confirmation {
    wire::DafsStatus status =
        wire::DafsStatus::kOk;  // kClidInUse: another client has the name; kDelay: draining
    // The client has taken its name now, and relies on no promise of an earlier server instance.
    bool has_no_promises = false;
    std::shared_ptr<Client> replaced;  // the old instance, whose state the caller must release
    std::optional<Principal> holder;   // of the client that has the name
  };
  // A session of `client` has authenticated as `principal`.
  Confirmation Confirm(const std::shared_ptr<Client>& client, const Principal& principal,
                       absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // The state of `replaced` has been released. Its last requests may still open files: Expire
  // returns its id as long as it has opens.
  void Released(const std::shared_ptr<Client>& replaced) ABSL_LOCKS_EXCLUDED(mutex_);
  // A session that Confirm accepted has ended, and nothing of it is executed any more.
  void SessionClosed(const std::shared_ptr<Client>& client) ABSL_LOCKS_EXCLUDED(mutex_);

  // Processes clients whose lease has expired. The server keeps what they hold as a courtesy until
  // another client needs it (4.4.1.2), for at most courtesy_time, and while all such state stays
  // within max_courtesy. It keeps nothing of a client that has locks. Clients that hold nothing and
  // have no session are forgotten. Returns the ids of clients whose opens the caller must release.
  std::vector<wire::ClientId> Expire(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t count() const ABSL_LOCKS_EXCLUDED(mutex_);

  // While the server is draining, Confirm refuses clients that do not have their name yet with
  // DELAY, except those that may reclaim what they held before a restart. Those that have it stay,
  // and may connect again. Returns false if that is so already.
  bool SetDraining(bool draining, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // Since when; nullopt: it is not draining.
  std::optional<absl::Time> draining_since() const ABSL_LOCKS_EXCLUDED(mutex_);

  // A client that has its name, as the administrator sees it.
  struct Entry {
    std::shared_ptr<Client> client;
    Principal principal;
    absl::Time since;  // when it took its name
    uint32_t sessions = 0;
    bool has_lease = false;
  };
  std::vector<Entry> List(absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Key = std::pair<std::string, wire::Verifier>;

  std::shared_ptr<Client> NewClient(const std::string& client_id_string,
                                    const wire::Verifier& verifier, uint32_t max_credentials)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasExpired(const Client& client, absl::Time now) const {
    return client.renewed() + options_.lease_time <= now;
  }
  bool MayReclaim(const ClientRecords::Record& client) const;
  // Returns true if a new instance may take the name of `old`.
  bool MayReplace(const Principal& principal, const Client& old, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Client& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetReplaced(std::vector<wire::ClientId>* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  ClientRecords* records_ = nullptr;
  OnExpired on_expired_;  // may be null
  mutable absl::Mutex mutex_;
  std::optional<absl::Time> draining_since_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<Client>> confirmed_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Client>> replaced_ ABSL_GUARDED_BY(mutex_);
  // Connected and not yet authenticated. Only their sessions own them, so they end with these.
  std::map<Key, std::weak_ptr<Client>> unconfirmed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
