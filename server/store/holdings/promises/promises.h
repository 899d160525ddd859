// Promises to clients: the server announces a change to a client before it applies the change, so
// the client may cache what is promised. This table knows which client has which promise, which
// objects are being changed, and which files are open for writing.
// Spec: WIRE 9.6.
//
// A request that reads (Give):
//   The store calls Give before it reads what it promises. The response carries the bits that Give
//   returned, unless IsVoid by then.
// A request that modifies (Changing):
//   1. The session makes a Changing and passes it to the function of the store.
//   2. The store takes its NameGuard, checks for cheap refusals, and calls Begin for each key that
//      it is about to change. If the last Begin returned false, it returns without having changed
//      or journalled anything.
//   3. The session sends TakeCalls() to their holders and waits until each has answered or is void.
//      It calls Dropped for each. If awaits_return(), it also waits for AwaitReturn.
//      Then it calls the store again with the same Changing, from step 2: calls that were made are
//      not repeated. A key or a client that is new at this pass may need calls again.
//   4. After the change, Keep ends the marks and returns whether the response may carry
//      kSpcondNames. The destructor ends the marks of a request that changed nothing.
// While a key is marked, Give returns 0 for it. So no client can be promised the old value after
// the calls, nor the value between two steps of a change.
//
// An OPEN for writing changes the attributes of the file (Begin), and OpenedToWrite must be called
// before its Changing ends. While the file is open, other clients get no promise of its
// attributes. So a WRITE through that open needs no Changing. Any other WRITE, ALLOCATE, COPY,
// APPEND or SETATTR does.
//
// The client itself invalidates what its own requests change: the server does not call it.
//
// Thread-safe, except that one thread at a time uses a Changing. Nothing blocks or calls the file
// system. Memory: below 100 bytes for a promise of one client about an object, 24 more for each
// further client.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/promises/promisee.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// server/store/holdings/promises/promises_parts.h
struct PromiseShard;
struct PromiseClient;

// The promised or changed part of an object; the values of wire::Changed::what.
inline constexpr uint8_t kPromisedNames = 1;       // of a directory: its names
inline constexpr uint8_t kPromisedAttributes = 2;  // with ACL and names of extended attributes
inline constexpr uint8_t kPromisedAll = 4;         // only in a Call: everything; no key

class Promises {
 private:
  using Shard = PromiseShard;
  using Client = PromiseClient;

 public:
  struct Limits {
    uint32_t of_client = 262144;  // promises of a client; 0: the server gives none
    uint32_t of_all = 1048576;
  };

  Promises() : Promises(Limits()) {}
  explicit Promises(Limits limits);
  ~Promises();
  Promises(const Promises&) = delete;
  Promises& operator=(const Promises&) = delete;

  // The client takes part from now on (PROMISES). All earlier promises to it are over, and calls to
  // it that are not answered yet no longer count. `name`: its client_id_string, for Returning.
  // Sets *granted to what it may hold at once. Returns 0, and 0 in *granted, if it gets none.
  // The Promisee of a client id stays the same until Forget.
  Promisee Admit(const wire::ClientId& id, std::string_view name, uint32_t most, uint32_t* granted)
      ABSL_LOCKS_EXCLUDED(clients_mutex_);

  // The client has not answered, or has lost its Back-control Channel: it has no promise any more,
  // until Admit. Returns false if it had been void.
  bool Void(Promisee client) ABSL_LOCKS_EXCLUDED(clients_mutex_);

  // The client is late with an answer: until Admit it gets no promise, and its responses carry
  // kSpcondVoid, but it is still called. A client trusts a promise for half of recall-time after a
  // request that was answered without kSpcondVoid. So when Void follows after that time, it relies
  // on none (docs/decisions.md).
  void Overdue(Promisee client, absl::Time now) ABSL_LOCKS_EXCLUDED(clients_mutex_);
  // Since when it is late; InfiniteFuture if it is not.
  absl::Time OverdueSince(Promisee client) const ABSL_LOCKS_EXCLUDED(clients_mutex_);

  // The client's number; 0: it takes no part.
  Promisee PromiseeOf(const wire::ClientId& id) const ABSL_LOCKS_EXCLUDED(clients_mutex_);
  // Whether responses to the client carry kSpcondVoid: after Overdue, Void or Forget. False for 0.
  // Two atomic reads.
  bool IsVoid(Promisee client) const;

  // The client is gone. Its Promisee stays void. Does nothing if the id is unknown.
  void Forget(const wire::ClientId& id) ABSL_LOCKS_EXCLUDED(clients_mutex_);

  // Records promises before the caller reads what it promises. Returns those of `what` that are
  // given. The others are not: the key is being changed, another client has it open for writing
  // (attributes), there is no room, the client is void or 0. A promise that is not used in the
  // response does no harm.
  uint8_t Give(const ObjectKey& key, Promisee to, uint8_t what);

  // The number of opens for writing that each client has; also of clients without promises.
  void OpenedToWrite(const ObjectKey& key, const wire::ClientId& client);
  void ClosedToWrite(const ObjectKey& key, const wire::ClientId& client);

  // A BC_CHANGED to send. Dropped is called exactly once for each Call that was taken. Until then
  // the holder gets no promise about the key.
  struct Call {
    Promisee holder = 0;
    uint8_t what = 0;
    ObjectKey key;
    std::string name;        // with kPromisedNames: only this one changes; empty: any may
    uint32_t admission = 0;  // of Promises: which Admit of the holder
  };
  // The holder has answered, or is void.
  void Dropped(const Call& call);

  // The keys that one request changes, marked from Begin until Keep or the destructor.
  class Changing {
   public:
    // `by`: the client that sent the request, which is not called; 0 if it takes no part.
    // `by_name`: its client_id_string, borrowed; its return is not awaited.
    Changing(Promises& promises, Promisee by, std::string_view by_name = {})
        : promises_(promises), by_(by), by_name_(by_name) {}
    ~Changing();
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;

    // Marks `key`, of which `what` is about to change; of names only `name`, unless that is empty.
    // Returns false if this or an earlier Begin needs an answer first: the store goes on with Begin
    // for its other keys, so that all calls are made together, and then returns.
    bool Begin(const ObjectKey& key, uint8_t what, std::string_view name = {});

    // The calls to make, once. Empty: nothing but awaits_return() keeps the request from going on.
    std::vector<Call> TakeCalls();
    bool has_calls() const { return !calls_.empty(); }
    // Changes from now on are of a reclaim, and restore earlier state. Clients that have
    // not returned rely on nothing that it changes, and it must not outlast the grace period.
    void SkipReturn() { skips_return_ = true; }
    // Whether the session must wait for AwaitReturn.
    bool awaits_return() const { return awaits_return_; }

    // The change is applied: ends the marks. Returns whether the requester has the promise of the
    // names of every directory that was begun with kPromisedNames, so that the response may carry
    // kSpcondNames. False if another request changed one of them at the same time.
    bool Keep();

   private:
    friend class Promises;

    struct Mark {
      Shard* shard;
      uint32_t object;  // its number, the same while it is marked
      uint8_t what;
    };
    struct Announced {
      ObjectKey key;
      uint8_t what;
      std::string name;
    };

    void MarkAndCall(const ObjectKey& key, uint8_t what, std::string_view name);
    // Ends the marks, as Keep if `keeps`.
    bool End(bool keeps);
    bool WasAnnounced(const ObjectKey& key, uint8_t what, std::string_view name) const;

    Promises& promises_;
    const Promisee by_;
    const std::string_view by_name_;
    absl::InlinedVector<Mark, 4> marks_;
    std::vector<Announced> announced_;  // with calls; a later pass does not repeat them
    std::vector<Call> calls_;
    bool awaits_return_ = false;
    bool skips_return_ = false;
  };

  // Whether a request other than `own` is changing the object, or is about to. `own` may be null.
  bool IsBeingChanged(const ObjectKey& key, const Changing* own);

  // Making room. A client that has nearly as many promises as it may, or the one with the most if
  // that holds for all in total, is crowded: `on_crowded` is called once, on the thread of a Give,
  // which holds no lock of this class. Must not block. Call before the first Admit.
  void SetOnCrowded(std::function<void(Promisee)> on_crowded) {
    on_crowded_ = std::move(on_crowded);
  }
  // The next promises of the client to end, at most `most`, oldest first, as Calls in the
  // background: Dropped for each after the answer, then call this again. Empty: it is no longer
  // crowded.
  std::vector<Call> PickToEnd(Promisee client, size_t most = 64);

  // The path of an export leads elsewhere, or something else changed without a name: returns a Call
  // with kPromisedAll for each client. Until Dropped the client gets no promise.
  std::vector<Call> CallAll() {
    return CallAll([](const wire::ClientId&) { return true; });
  }
  // The same for the clients that `concerns` returns true for. It must not call this class.
  std::vector<Call> CallAll(absl::FunctionRef<bool(const wire::ClientId&)> concerns)
      ABSL_LOCKS_EXCLUDED(clients_mutex_);

  // After a restart: `names` are the client_id_strings of the clients that had promises. Until each
  // is admitted or Returned, or EndReturning, it counts as a holder of everything that does not
  // answer, so a request of another client may change nothing. Call before the first request.
  void SetReturning(std::set<std::string, std::less<>> names) ABSL_LOCKS_EXCLUDED(return_mutex_);
  // The client has no promise of the earlier instance: it came back as another instance, or its
  // lease is known to have ended.
  void Returned(std::string_view name) ABSL_LOCKS_EXCLUDED(return_mutex_);
  // The time limit, recall-time after the start. Returns the clients that did not return.
  std::vector<std::string> EndReturning() ABSL_LOCKS_EXCLUDED(return_mutex_);
  // Calls `done` once no client but `by_name` is awaited: at once, or later on the thread that
  // calls Admit, Returned or EndReturning, without a lock held. `done` must not block.
  void AwaitReturn(std::string_view by_name, absl::AnyInvocable<void()> done)
      ABSL_LOCKS_EXCLUDED(return_mutex_);

  struct Counts {
    uint64_t promises = 0;  // a client and an object; now
    uint64_t clients = 0;   // that have not been voided; now
    uint64_t calls = 0;     // since the start
    uint64_t voided = 0;    // clients, since the start
    uint64_t refused = 0;   // promises for want of room, since the start
  };
  Counts GetCounts() const ABSL_LOCKS_EXCLUDED(clients_mutex_);
  // The promises that a client has now; 0 if it is unknown.
  uint64_t HeldBy(Promisee client) const;

 private:
  static constexpr size_t kShards = 64;
  static constexpr size_t kClientsMax = 4096;  // more are not admitted
  // After this many calls that name one entry of a directory, without a Give in between, the next
  // call ends the promise: an idle client must not be called forever.
  static constexpr uint8_t kNamedCallsMax = 8;

  Shard& ShardOf(size_t hash) { return *shards_[(hash >> 32) % kShards]; }
  // The client that `promisee` names; null if it is gone.
  Client* Find(Promisee promisee) const;
  uint32_t NextAdmission() ABSL_EXCLUSIVE_LOCKS_REQUIRED(clients_mutex_);
  // Ends all promises to the client with this number, to which none may be given meanwhile.
  // Without `also_called` an unanswered call keeps preventing that the promise is given again.
  void Sweep(size_t index, bool also_called) ABSL_EXCLUSIVE_LOCKS_REQUIRED(clients_mutex_);

  // The caller holds the shard's mutex. GiveLocked does not look at the marks. `object`: the number
  // of `key` in the table; 0: not there.
  uint8_t GiveLocked(Shard& shard, uint32_t object, size_t hash, const ObjectKey& key, Promisee to,
                     uint8_t what) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void RemoveIfOver(Shard& shard, uint32_t holder) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // A call is answered, and `over` of the holder's promise has ended.
  void EndCall(const Call& call, uint8_t over);
  void PickFrom(Shard& shard, Promisee client, size_t most, std::vector<Call>& calls);
  void CheckRoom(Promisee client);
  Client* Largest() const;
  bool Awaits(std::string_view by_name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(return_mutex_);
  bool AwaitsOther(std::string_view by_name) const ABSL_LOCKS_EXCLUDED(return_mutex_);
  std::vector<absl::AnyInvocable<void()>> TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(return_mutex_);

  const Limits limits_;
  std::function<void(Promisee)> on_crowded_;
  std::array<std::unique_ptr<Shard>, kShards> shards_;

  mutable absl::Mutex clients_mutex_;  // taken before that of a shard
  absl::flat_hash_map<wire::ClientId, size_t> by_id_ ABSL_GUARDED_BY(clients_mutex_);
  std::vector<size_t> free_ ABSL_GUARDED_BY(clients_mutex_);
  size_t used_ ABSL_GUARDED_BY(clients_mutex_) = 1;  // of clients_; number 0 is none
  uint32_t last_admission_ ABSL_GUARDED_BY(clients_mutex_) = 0;
  std::unique_ptr<Client[]> clients_;  // kClientsMax; the fields are atomic

  // Counts; they publish no other data.
  std::atomic<uint64_t> held_{0}, called_{0}, voided_{0}, refused_{0};
  std::atomic<bool> is_crowded_{false};  // on_crowded_ was called for all in total

  struct Waiter {
    std::string by_name;
    absl::AnyInvocable<void()> done;
  };
  std::atomic<bool> is_returning_{false};  // lets Begin skip return_mutex_
  mutable absl::Mutex return_mutex_;
  std::set<std::string, std::less<>> returning_ ABSL_GUARDED_BY(return_mutex_);
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(return_mutex_);
};

}  // namespace dafs::server
