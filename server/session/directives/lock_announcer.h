// Notifies clients by BC_LOCK_FREE that a lock for which they wait can be granted now.
// Spec: WIRE 9.6.
//
// A client is reached on the Back-control Channel of the session on which it sent PROMISES. When
// that channel ends, the store drops the places of the client's waits, so that no other waiter
// waits for a client that cannot come. The client asks for its locks again when it has a new
// channel.
//
// Thread-safe. Nothing blocks.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/store/store.h"
#include "wire/messages/promises.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct BackControlRoute;

class LockAnnouncer {
 public:
  // `store` outlives this, and uses it until its last request (LockNotices::SetSend).
  explicit LockAnnouncer(Store& store);
  LockAnnouncer(const LockAnnouncer&) = delete;
  LockAnnouncer& operator=(const LockAnnouncer&) = delete;

  // PROMISES: `route` reaches the client from now on.
  void Bind(const wire::ClientId& client_id, const std::shared_ptr<BackControlRoute>& route)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The channel has ended.
  void Unbind(const std::shared_ptr<BackControlRoute>& route) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool Send(const wire::ClientId& client_id, const wire::BcLockFreeArgs& args)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Store& store_;
  absl::Mutex mutex_;
  absl::flat_hash_map<wire::ClientId, std::shared_ptr<BackControlRoute>> routes_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
