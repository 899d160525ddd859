// The fencing lists of this server and the sessions that they concern.
// Spec: 4.4.4, 6.4; WIRE 9.4, R73 to R76, R83.
//
// A file may have a list and its file system another; both must admit a session (4.4.4.3, 6.4.2).
// The store checks them in every function that gets a filehandle, in an Access of the session. A
// change is stored first, then takes effect, and then the accesses that began before are awaited:
// an access that begins later sees the new list.
//
// Thread-safe. Check costs one load while there is no list, otherwise a shared lock and two
// lookups.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/store/durable/database.h"
#include "server/store/fencing/fence_list.h"
#include "server/store/fencing/fence_records.h"
#include "server/store/fencing/fenced_session.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class Fencing {
 public:
  // `database` is borrowed and outlives this.
  explicit Fencing(Database& database) : records_(database) {}
  Fencing(const Fencing&) = delete;
  Fencing& operator=(const Fencing&) = delete;

  // Reads the lists. Call before the first request. Errors name the remedy: kFailedPrecondition.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is any list.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Whether a session with this fence id (empty: none) may access an object.
  bool Admits(std::string_view id, const ObjectKey& object) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for a session; null: one without a fence id.
  bool Admits(const FencedSession* session, const ObjectKey& object) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!any()) return true;
    return Admits(session != nullptr ? std::string_view(session->id()) : std::string_view(),
                  object);
  }

  // The list of a file or file system; empty: none.
  FenceList Get(const FencedObject& object) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Changes a list. When it returns OK, the change is on stable storage and accesses that begin
  // from now on follow it. Blocks on the disk. INVAL: see Apply. RESOURCE: the disk is full.
  // SERVERFAULT: it cannot be stored; that is logged. On an error nothing has changed.
  wire::DafsStatus Set(const FencedObject& object, const FenceChange& change)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  // The sessions with a fence id.
  FencedSessions& sessions() { return sessions_; }

 private:
  FenceRecords records_;
  FencedSessions sessions_;
  absl::Mutex changing_;  // one change at a time; held while it is stored
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<ObjectKey, FenceList> lists_ ABSL_GUARDED_BY(mutex_);  // none is empty
  // Whether lists_ has any; publishes no other data. An access that sees `false` after the first
  // list was made is one of a session that may only be drained later, by another change.
  std::atomic<bool> any_{false};
};

}  // namespace dafs::server
