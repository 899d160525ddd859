// The fence id of one session, and the accesses to files that it is executing, so that a change of
// a fencing list can wait until they have ended.
// Spec: 4.4.4.1, 4.4.4.4 (draining).
//
// An access is one function of the store, from before it checks the lists until its system calls
// have returned. The steps of a request before and between accesses (fetching data from the
// client's memory, waiting for the holder of a delegation) change nothing in a file, and its next
// access checks the lists again. So a drain waits neither for the client, which may have stopped,
// nor for its requests in a queue: those end with ACCES.
//
// Only sessions with a fence id have one of these: no other session can be drained.
// Thread-safe; nothing blocks. An access costs one uncontended mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class FencedSessions;

class FencedSession {
 public:
  // `sessions` outlives this. `id` is not empty.
  FencedSession(FencedSessions& sessions, const wire::ClientId& client_id, std::string id);
  // No access is under way.
  ~FencedSession();
  FencedSession(const FencedSession&) = delete;
  FencedSession& operator=(const FencedSession&) = delete;

  const wire::ClientId& client_id() const { return client_id_; }
  const std::string& id() const { return id_; }

  // An access by a session, from its constructor to its destructor, on one thread. Does nothing for
  // a null session.
  class Access {
   public:
    explicit Access(FencedSession* session) : session_(session) {
      if (session_ != nullptr) session_->Begin(*this);
    }
    ~Access() {
      if (session_ != nullptr) session_->End(*this);
    }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    friend class FencedSession;

    FencedSession* const session_;
    uint64_t number_ = 0;
    // The accesses under way are a list, in the order in which they began. Guarded by the session.
    Access* previous_ = nullptr;
    Access* next_ = nullptr;
  };

  // Calls `done` once the accesses that have begun have ended: at once, or later on the thread that
  // ends the last of them, without a lock. `done` must not block.
  void AwaitEnd(absl::AnyInvocable<void()> done) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiter {
    uint64_t before;  // waits for the accesses with a lower number
    absl::AnyInvocable<void()> done;
  };

  void Begin(Access& access) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(Access& access) ABSL_LOCKS_EXCLUDED(mutex_);

  FencedSessions& sessions_;
  const wire::ClientId client_id_;
  const std::string id_;
  absl::Mutex mutex_;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  Access* oldest_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Access* newest_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

// The sessions with a fence id. One whose connection has ended may still execute accesses, and
// counts until it is destroyed.
class FencedSessions {
 public:
  // Calls `done` once every access has ended that a session with one of `ids` had begun. As
  // FencedSession::AwaitEnd.
  void Drain(std::span<const std::string> ids, absl::AnyInvocable<void()> done)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The fence ids of the present sessions of a client; none if it has no session with one.
  std::vector<std::string> IdsOf(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class FencedSession;

  absl::Mutex mutex_;
  std::vector<FencedSession*> all_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
