// The clients of the users of a mount with sec=krb5: one client::Client for each user, with the
// tickets of that user. All workers share them; each has a client::Files of its own for each
// (UserFiles). A client is made at the user's first request. It ends when it was unused for
// kUnusedFor, or when another user needs its place: the least recently used one first. A client is
// used while a request, an open file or directory, or the owner of a lock holds a Pin, or while
// written data of it is not committed.
// Thread-safe. Nothing blocks; `make` is called with the mutex held, and sends nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/client.h"

namespace dafs::fuse {

struct UserClient {
  UserClient(uint32_t uid_in, std::unique_ptr<client::Client> client_in)
      : uid(uid_in), client(std::move(client_in)) {}

  const uint32_t uid;
  const std::unique_ptr<client::Client> client;
  std::atomic<bool> has_ended{false};  // read after UserClients::version, which publishes it

 private:
  friend class UserClients;
  std::atomic<uint32_t> pins{0};  // raised under the table's mutex only
  absl::Time last_used;           // the table's mutex guards it
};

class UserClients {
 public:
  using Make = std::function<absl::StatusOr<std::unique_ptr<client::Client>>(uint32_t uid)>;
  // Keeps the client of a user as long as a copy exists.
  using Pin = std::shared_ptr<const void>;

  static constexpr absl::Duration kUnusedFor = absl::Minutes(10);

  // At most `most` clients, unless more are used. `unconnected` never connects: see UserFiles.
  UserClients(size_t most, Make make, std::unique_ptr<client::Client> unconnected)
      : most_(most), make_(std::move(make)), unconnected_(std::move(unconnected)) {}
  UserClients(const UserClients&) = delete;
  UserClients& operator=(const UserClients&) = delete;

  // The user makes a request. kResourceExhausted: there are `most` clients, and all are used. Other
  // errors are those of `make`.
  absl::StatusOr<Pin> Enter(uint32_t uid, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  client::Client& unconnected() const { return *unconnected_; }
  // Null: the user has no client.
  std::shared_ptr<UserClient> Find(uint32_t uid) const ABSL_LOCKS_EXCLUDED(mutex_);
  // For reports, and for what concerns the data of all users.
  std::vector<std::shared_ptr<UserClient>> All() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The same, without copies. With the mutex held: `visit` must not wait.
  template <class F>
  void ForEach(F&& visit) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (const auto& [uid, user] : users_) visit(*user);
  }

  void EndUnused(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // Grows with each client that ends. A worker then ends its Files of that client.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  using Users = absl::flat_hash_map<uint32_t, std::shared_ptr<UserClient>>;
  static bool IsUsed(const UserClient& user);
  bool MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Users::iterator user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  const Make make_;
  const std::unique_ptr<client::Client> unconnected_;
  std::atomic<uint64_t> version_{0};
  mutable absl::Mutex mutex_;
  Users users_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::fuse
