// Open delegations: which client has which, and which are being recalled.
// Spec: 6.5.10, 6.5.11, 6.5.24, 6.6.3, 6.6.4.
//
// A file has many read delegations or one write delegation, except after a restart, when a client
// gets what it claims. The state id of a delegation is that of an open in the OpenTable
// (OpenRequest::is_delegation): READ, WRITE and SETATTR accept it, and REMOVE keeps the file.
//
// A request that conflicts with the delegation of another client:
//   1. The store calls IsFree before it changes anything. That begins the recalls, adds what must
//      end to Caller::awaited, and returns false; the store returns DELAY.
//   2. The session waits for each (Await), and calls the store again.
// A delegation ends with Remove, whatever the reason: DELEGRETURN, revocation, the end of its
// client. Then the waiting requests go on.
//
// Granting. The store looks for conflicts and adds a delegation while it holds the file's lock. A
// change without that lock marks the key first (Promises::Changing::Begin), then calls IsFree. So
// the store adds the delegation first, and takes it back if the key is marked by then.
//
// Without a delegation that may conflict, IsFree, Reported, Find, Has and Upgrade are two atomic
// reads. An OPEN that gets a delegation takes the mutex once (TryAdd).
// Thread-safe. Nothing blocks or calls the file system.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class Delegations {
 public:
  using Type = wire::OpenDelegationType;

  struct Options {
    Type most = Type::kWrite;    // what may be granted; kNone: nothing
    uint32_t of_client = 16384;  // a client that has as many gets none until one has ended
  };

  struct Delegation {
    wire::ClientId client_id;
    wire::StateId state_id;
    ObjectKey key;
    Type type = Type::kRead;
    std::string fence_id = {};  // of the session that got it
  };
  // BC_RECALL is to be sent.
  struct Recall : Delegation {
    std::string client_name;  // client_id_string
    bool has_holder = true;   // false: it awaits CLAIM_DELEGATE_PREV, so nothing can be sent
  };
  // An event that a request waits for.
  struct Awaited {
    wire::StateId state_id;
    bool answer = false;  // the answer to BC_GETATTR; otherwise the end of the delegation
  };
  using AwaitedList = std::vector<Awaited>;  // mostly empty, so without a buffer of its own

  explicit Delegations(Options options) : options_(options) {}
  Delegations(const Delegations&) = delete;
  Delegations& operator=(const Delegations&) = delete;

  struct Hooks {
    // A recall begins: once for each delegation. If it is not over recall-time later, the receiver
    // revokes the delegation.
    std::function<void(const Recall&)> on_recall;
    // BC_GETATTR is to be sent. The receiver calls SetReported, also if there is no answer.
    std::function<void(const Delegation&)> on_ask;
  };
  // Called on the thread of a request, perhaps with a lock of the store held: must not block or
  // call the store. Without hooks nothing is granted. Call before the first request.
  void SetHooks(Hooks hooks) { hooks_ = std::move(hooks); }
  // Whether there are write delegations: then a request that only reads may have to wait.
  bool any_write() const { return writes_.load(std::memory_order_relaxed) != 0; }
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  bool may_recall() const { return hooks_.on_recall != nullptr; }

  // --- Clients ---

  // The client knows delegations, and may be granted some from now on: it has sent a request that
  // is about them. `name`: its client_id_string.
  void Admit(const wire::ClientId& client_id, std::string_view name) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client is gone. Its delegations have been removed, except those that await a claim.
  void Forget(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // `to` is a later instance of the client `from`: until `until` it may claim its write
  // delegations. Call before the opens of `from` are closed.
  void Supersede(const wire::ClientId& from, const wire::ClientId& to, std::string_view name,
                 absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_);
  // CLAIM_DELEGATE_PREV: whether the client's earlier instance had a delegation of the file, that
  // may still be claimed.
  bool MayClaim(const ObjectKey& key, const wire::ClientId& client_id, absl::Time now) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The client has claimed it.
  void Claimed(const ObjectKey& key, const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // DELEGPURGE: the client claims no more.
  void Purge(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Granting ---

  // Whether the client may get a delegation of this type, as far as this table knows: the caller
  // looks at the opens. False if the file has one that conflicts or is of the same client, or has
  // had a recall lately. No mutex if the file has none.
  bool MayAdd(const ObjectKey& key, const wire::ClientId& client_id, Type type,
              absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds a delegation, after MayAdd. Returns false if the client was not admitted or has too many:
  // then the oldest of these is recalled.
  bool TryAdd(const Delegation& delegation) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds it in any case.
  void Add(const Delegation& delegation) ABSL_LOCKS_EXCLUDED(mutex_);
  // The read delegation that the client has of the file becomes a write delegation, and is
  // returned. nullopt: there is none, it is being recalled, or a write delegation may not be added.
  std::optional<Delegation> Upgrade(const ObjectKey& key, const wire::ClientId& client_id,
                                    absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  // A write delegation becomes a read delegation. Returns false if it is being recalled, or is
  // unknown.
  bool Downgrade(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The delegation has ended. Does nothing if it is unknown, or awaits a claim.
  void Remove(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for one that awaits a claim. Returns false if it does not.
  bool EndClaim(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The delegation that the client has of a file.
  std::optional<Delegation> Find(const ObjectKey& key, const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether TryAdd may add anything for the client. Mostly one atomic read.
  bool IsAdmitted(const wire::ClientId& client_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  const Options& options() const { return options_; }
  // Whether any client has one of the file.
  bool Has(const ObjectKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether another client than `client_id` has a delegation that conflicts with one of `type`.
  bool HasConflict(const ObjectKey& key, const wire::ClientId& client_id, Type type) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Conflicts ---

  enum class Use : uint8_t {
    kReads,   // an OPEN for reading, a LOCK: conflicts with write delegations
    kWrites,  // a change: conflicts with all
  };
  // Returns whether `by` may use the file now. Otherwise recalls the delegations of other clients
  // that conflict, and adds them to *awaited unless that is null.
  bool IsFree(const ObjectKey& key, const wire::ClientId& by, Use use, AwaitedList* awaited)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    const std::atomic<size_t>& conflicting = use == Use::kReads ? writes_ : count_;
    if (conflicting.load(std::memory_order_seq_cst) == 0 || !MayHave(key)) return true;
    return Resolve(key, by, use, awaited);
  }
  // Recalls one delegation, if that has not begun.
  void BeginRecall(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // The values of the holder of a write delegation, of those that it may have changed.
  struct Values {
    std::optional<uint64_t> change;
    std::optional<uint64_t> size;
    std::optional<wire::Time> time_modify;
  };
  // Values from the holder of a write delegation, for a GETATTR of another client. Asks it at most
  // once in kAskedFor, and returns false if its answer must be awaited.
  bool Reported(const ObjectKey& key, const wire::ClientId& by, absl::Time now,
                AwaitedList* awaited, Values* values) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (writes_.load(std::memory_order_seq_cst) == 0 || !MayHave(key)) return true;
    return GetReported(key, by, now, awaited, values);
  }
  // The holder has answered, or will not. Does nothing if it is not asked.
  void SetReported(const wire::StateId& state_id, const Values& values, absl::Time now)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `done` once what is awaited has come: at once, or later on the thread that caused it,
  // without a lock of this class. `done` must not block.
  void Await(const Awaited& awaited, absl::AnyInvocable<void()> done) ABSL_LOCKS_EXCLUDED(mutex_);

  // The delegations that are being recalled from a client, for a new Back-control Channel.
  std::vector<Recall> RecallsOf(const wire::ClientId& client_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The delegations of the files for which `concerns` returns true. It must not call this class.
  std::vector<Delegation> OfFiles(absl::FunctionRef<bool(const ObjectKey&)> concerns) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the delegation exists.
  bool Holds(const wire::StateId& state_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes those for which no claim has come in time. Call regularly.
  void EndClaims(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // It was not returned in time: it counts as revoked when it ends.
  void NoteRevoked(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Recalls so far, and how long it took until the delegations ended.
  struct RecallTimes {
    uint64_t begun = 0;
    uint64_t ended = 0;    // returned or revoked
    uint64_t revoked = 0;  // of these
    absl::Duration total;  // of those that ended
    absl::Duration longest;

    absl::Duration mean() const {
      return ended > 0 ? total / static_cast<int64_t>(ended) : absl::ZeroDuration();
    }
    void End(absl::Duration time, bool is_revoked);
  };
  struct Counts {
    uint64_t held = 0;    // now
    RecallTimes recalls;  // since the start
  };
  Counts GetCounts() const ABSL_LOCKS_EXCLUDED(mutex_);
  RecallTimes RecallTimesOf(const wire::ClientId& client_id) const ABSL_LOCKS_EXCLUDED(mutex_);

  // After a recall the file is shared, and gets no delegation for so long.
  static constexpr absl::Duration kNotAgainFor = absl::Seconds(30);
  static constexpr absl::Duration kAskedFor = absl::Milliseconds(30);

 private:
  using Id = uint64_t;  // the state id as a number; grows
  using Done = absl::AnyInvocable<void()>;
  using Dones = std::vector<Done>;

  struct Entry {
    Delegation delegation;
    bool is_recalled = false;
    bool is_revoked = false;  // NoteRevoked was called
    absl::Time recalled_at;
    bool awaits_claim = false;
    absl::Time claim_until;
    Dones ended;
    // BC_GETATTR.
    bool is_asked = false;
    Values reported;
    absl::Time reported_at = absl::InfinitePast();
    Dones answered;
  };
  struct Client {
    std::string name;
    bool is_admitted = false;
    size_t held = 0;
    std::set<Id> idle;  // not recalled, the oldest first
    RecallTimes recalls;
  };

  // Whether any client may have one of the file. A hint, but false only if none has.
  bool MayHave(const ObjectKey& key) const {
    return at_place_[absl::HashOf(key) % at_place_.size()].load(std::memory_order_seq_cst) != 0;
  }
  std::atomic<uint32_t>& CountAt(const ObjectKey& key) {
    return at_place_[absl::HashOf(key) % at_place_.size()];
  }
  const std::atomic<uint64_t>& AdmittedPlace(const wire::ClientId& client_id) const {
    return admitted_[absl::HashOf(client_id) % admitted_.size()];
  }
  std::atomic<uint64_t>& AdmittedPlace(const wire::ClientId& client_id) {
    return admitted_[absl::HashOf(client_id) % admitted_.size()];
  }
  void AddLocked(const Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayGrant(const ObjectKey& key, Type type, absl::Time now) const {
    return type != Type::kNone && type <= options_.most && may_recall() &&
           !WasRecalledLately(key, now);
  }
  bool WasRecalledLately(const ObjectKey& key, absl::Time now) const;
  bool Resolve(const ObjectKey& key, const wire::ClientId& by, Use use, AwaitedList* awaited)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool GetReported(const ObjectKey& key, const wire::ClientId& by, absl::Time now,
                   AwaitedList* awaited, Values* values) ABSL_LOCKS_EXCLUDED(mutex_);
  void RecallLocked(Id id, Entry& entry, std::vector<Recall>& begun)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Recall RecallOf(const Entry& entry) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  const Entry* FindClaim(const ObjectKey& key, const wire::ClientId& client_id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool End(const wire::StateId& state_id, bool awaits_claim) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the functions that wait for its end to `over`.
  void Erase(Id id, Dones& over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendRecalls(const std::vector<Recall>& begun) const;
  void NoteRecall(const ObjectKey& key, absl::Time now);

  const Options options_;
  Hooks hooks_;
  std::atomic<size_t> count_{0};   // of entries_; see the comment on granting
  std::atomic<size_t> writes_{0};  // of them, write delegations
  // The number of delegations by hash of the key; see the comment on granting.
  std::array<std::atomic<uint32_t>, 65536> at_place_{};
  // An admitted client by hash of its id: saves most callers of Admit and IsAdmitted the mutex.
  // Publishes nothing but itself.
  std::array<std::atomic<uint64_t>, 1024> admitted_{};
  // The latest recalls by hash of the key: seconds since the epoch, beside the upper half of the
  // hash, so that no other file counts as recalled. Where two files share a place, the earlier
  // recall is forgotten, and its file may get a delegation too soon.
  std::array<std::atomic<uint64_t>, 4096> latest_recalls_{};
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Id, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ObjectKey, absl::InlinedVector<Id, 1>> by_key_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::ClientId, Client> clients_ ABSL_GUARDED_BY(mutex_);
  RecallTimes recalls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
