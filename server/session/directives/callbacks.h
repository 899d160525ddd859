// The calls to clients about what is promised to them: BC_CHANGED before a change, and the answer.
// Spec: WIRE 9.6.
//
// Calls to one client wait in a queue until its Back-control Channel has room, and then go together
// in messages of up to 64. A call is over when the client has answered, or when its promises are
// void: after it did not answer within recall-time, after an answer with an error, or recall-time
// after its channel was lost. A client without a channel is not called: the calls wait until then,
// or until it sends PROMISES again. Half-way to these limits the next response to the client
// says so (Promises::Overdue).
//
// Thread-safe, except as noted. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/latency.h"
#include "runtime/loop/loop.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/store.h"
#include "wire/messages/promises.h"
#include "wire/protocol/status.h"

namespace dafs::server {

struct BackControlRoute;
class Client;
class ClientTable;

// Waits for the end of several calls.
class CallGroup {
 public:
  virtual ~CallGroup() = default;
  // One of the calls is over. Any thread; no lock is held.
  virtual void Answered() = 0;
};

class Callbacks {
 public:
  // `store` and `clients` outlive this.
  Callbacks(Store& store, ClientTable& clients, absl::Duration recall_time)
      : store_(store), clients_(clients), recall_time_(recall_time) {}
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  absl::Duration recall_time() const { return recall_time_; }

  // Call once, before the first connection. `loop` runs the timers, and no request after its end.
  void Start(Loop& loop) ABSL_LOCKS_EXCLUDED(mutex_);

  // PROMISES: all earlier calls to the client are over, and `route` carries the next ones. Returns
  // what the client may hold; 0: it takes no part. On the thread of the route.
  uint32_t Admit(Client& client, uint32_t most, const std::shared_ptr<BackControlRoute>& route)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The client ends the session of its channel in order: it relies on no promise any more. On the
  // thread of the route.
  void Left(Client& client, const std::shared_ptr<BackControlRoute>& route)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The channel is gone. On its thread.
  void Lost(const std::shared_ptr<BackControlRoute>& route) ABSL_LOCKS_EXCLUDED(mutex_);
  // The lease of the client has expired: it relies on no promise any more.
  void Expired(Promisee promisee) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client is gone.
  void Forget(const wire::ClientId& client_id, Promisee promisee) ABSL_LOCKS_EXCLUDED(mutex_);

  // The channel to the client, for other directives. Null: it is lost, or the client takes no part.
  std::shared_ptr<BackControlRoute> RouteOf(const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes the calls and, for each, calls Promises::Dropped and then group->Answered when it is
  // over; perhaps before this returns. `group` may be null.
  void Call(std::vector<Promises::Call> calls, std::shared_ptr<CallGroup> group)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The answers to calls since the start: the time from each call to its answer.
  LatencyHistogram answers() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The bytes of a directive with one element without a name: the least of use.
  static constexpr size_t kLeastRequestBytes = 136;

 private:
  struct Item {
    Promises::Call call;
    std::shared_ptr<CallGroup> group;
    absl::Time since;
  };
  using Items = std::vector<Item>;
  struct Holder {
    std::string name;                         // of the client, for the log
    std::shared_ptr<BackControlRoute> route;  // null: lost
    absl::Time lost = absl::InfiniteFuture();
    bool is_overdue = false;
    bool is_void = false;
    std::deque<Item> queue;
    std::map<uint64_t, Items> sent;  // by message, in order
    bool posted = false;             // Pump will run

    absl::Time Oldest() const;
    Items TakeAll();
  };
  // Ends the promises of a crowded client, some at a time.
  class Crowd;

  void LogOverdue(const Holder& holder) const;
  void LogVoid(const Holder& holder, std::string_view why) const;
  void Finish(Items items);
  // On the thread of the route: sends what has room.
  void Pump(Promisee promisee, const std::shared_ptr<BackControlRoute>& route)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Items NextMessage(Holder& holder, size_t request_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  wire::BcChangedArgs ArgsOf(const Items& items, size_t request_bytes) const;
  void OnAnswer(Promisee promisee, uint64_t message, const std::shared_ptr<BackControlRoute>& route,
                const absl::StatusOr<wire::DafsStatus>& answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client loses its promises. Logs `why` if it is not empty.
  void Void(Promisee promisee, std::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);
  Items VoidLocked(Promisee promisee, Holder& holder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetTimer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnTimer() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time Due(const Holder& holder) const;
  void EndReturning();

  Store& store_;
  ClientTable& clients_;
  const absl::Duration recall_time_;
  Loop* loop_ = nullptr;  // set before the first connection
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Promisee, std::unique_ptr<Holder>> holders_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_message_ ABSL_GUARDED_BY(mutex_) = 0;
  bool timer_set_ ABSL_GUARDED_BY(mutex_) = false;
  LatencyHistogram answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
