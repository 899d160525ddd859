// Open delegations: which client gets one, and what conflicts with it and is recalled.
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
// client; one that awaits a claim ends by DelegationClaims. Then the waiting requests go on.
//
// Granting. The store looks for conflicts and adds a delegation while it holds the file's lock. A
// change without that lock marks the key first (Promises::Changing::Begin), then calls IsFree. So
// the store adds the delegation first, and takes it back if the key is marked by then.
//
// Without a delegation that may conflict, IsFree, Find, Has and Upgrade are two atomic reads. An
// OPEN that gets a delegation takes the mutex once (TryAdd).
// Thread-safe. Nothing blocks or calls the file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "server/store/holdings/delegations/delegation.h"
#include "server/store/holdings/delegations/delegation_records.h"
#include "server/store/holdings/delegations/recall_times.h"
#include "server/store/holdings/delegations/recent_recalls.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class Delegations {
 public:
  using Type = Delegation::Type;

  struct Options {
    Type most = Type::kWrite;    // what may be granted; kNone: nothing
    uint32_t of_client = 16384;  // a client that has as many gets none until one has ended
  };

  // `records` outlives this.
  Delegations(Options options, DelegationRecords& records) : options_(options), records_(records) {}
  Delegations(const Delegations&) = delete;
  Delegations& operator=(const Delegations&) = delete;

  // `recall`: a recall begins. Called once for each delegation, on the thread of a request, perhaps
  // with a lock of the store held: must not block or call the store. If the recall is not over
  // recall-time later, the receiver revokes the delegation. Without it nothing is granted. Call
  // before the first request.
  void SetRecaller(std::function<void(const DelegationRecall&)> recall) {
    recall_ = std::move(recall);
  }
  bool may_recall() const { return recall_ != nullptr; }
  // Whether there are write delegations: then a request that only reads may have to wait.
  bool any_write() const { return records_.writes() != 0; }
  bool any() const { return records_.count() != 0; }

  // --- Granting ---

  // Whether the client may get a delegation of this type, as far as this table knows: the caller
  // looks at the opens. False if the file has one that conflicts or is of the same client, or has
  // had a recall lately. No mutex if the file has none.
  bool MayAdd(const ObjectKey& key, const wire::ClientId& client_id, Type type,
              absl::Time now) const ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Adds a delegation, after MayAdd. Returns false if the client was not admitted or has too many:
  // then the oldest of these is recalled.
  bool TryAdd(const Delegation& delegation) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Adds it in any case.
  void Add(const Delegation& delegation) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // The read delegation that the client has of the file becomes a write delegation, and is
  // returned. nullopt: there is none, it is being recalled, or a write delegation may not be added.
  std::optional<Delegation> Upgrade(const ObjectKey& key, const wire::ClientId& client_id,
                                    absl::Time now) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // A write delegation becomes a read delegation. Returns false if it is being recalled, or is
  // unknown.
  bool Downgrade(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // The delegation has ended. Does nothing if it is unknown, or awaits a claim.
  void Remove(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(records_.mutex());

  // --- What there is ---

  // The delegation that the client has of a file.
  std::optional<Delegation> Find(const ObjectKey& key, const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Whether any client has one of the file.
  bool Has(const ObjectKey& key) const ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Whether another client than `client_id` has a delegation that conflicts with one of `type`.
  bool HasConflict(const ObjectKey& key, const wire::ClientId& client_id, Type type) const
      ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Whether the delegation exists.
  bool Holds(const wire::StateId& state_id) const ABSL_LOCKS_EXCLUDED(records_.mutex());
  // The delegations of the files for which `concerns` returns true. It must not call a class
  // that uses the records.
  std::vector<Delegation> OfFiles(absl::FunctionRef<bool(const ObjectKey&)> concerns) const
      ABSL_LOCKS_EXCLUDED(records_.mutex());

  // --- Conflicts ---

  enum class Use : uint8_t {
    kReads,   // an OPEN for reading, a LOCK: conflicts with write delegations
    kWrites,  // a change: conflicts with all
  };
  // Returns whether `by` may use the file now. Otherwise recalls the delegations of other clients
  // that conflict, and adds them to *awaited unless that is null.
  bool IsFree(const ObjectKey& key, const wire::ClientId& by, Use use, AwaitedDelegations* awaited)
      ABSL_LOCKS_EXCLUDED(records_.mutex()) {
    const size_t conflicting = use == Use::kReads ? records_.writes() : records_.count();
    if (conflicting == 0 || !records_.MayHave(key)) return true;
    return Resolve(key, by, use, awaited);
  }
  // Calls `done` once what is awaited has come: at once, or later on the thread that caused it,
  // without the mutex of the records. `done` must not block.
  void Await(const AwaitedDelegation& awaited, absl::AnyInvocable<void()> done)
      ABSL_LOCKS_EXCLUDED(records_.mutex());

  // --- Recalls ---

  // Recalls one delegation, if that has not begun.
  void BeginRecall(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(records_.mutex());
  // The delegations that are being recalled from a client, for a new Back-control Channel.
  std::vector<DelegationRecall> RecallsOf(const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(records_.mutex());
  // It was not returned in time: it counts as revoked when it ends.
  void NoteRevoked(const wire::StateId& state_id) ABSL_LOCKS_EXCLUDED(records_.mutex());

  struct Counts {
    uint64_t held = 0;    // now
    RecallTimes recalls;  // since the start
  };
  Counts GetCounts() const ABSL_LOCKS_EXCLUDED(records_.mutex());
  RecallTimes RecallTimesOf(const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(records_.mutex());

 private:
  using Record = DelegationRecords::Record;
  using Recalls = std::vector<DelegationRecall>;

  bool MayGrant(const ObjectKey& key, Type type, absl::Time now) const {
    return type != Type::kNone && type <= options_.most && may_recall() &&
           !recent_recalls_.Has(key, now);
  }
  bool Resolve(const ObjectKey& key, const wire::ClientId& by, Use use, AwaitedDelegations* awaited)
      ABSL_LOCKS_EXCLUDED(records_.mutex());
  // Adds the recall to `begun`, unless it had begun.
  void RecallLocked(Record& record, Recalls& begun) ABSL_EXCLUSIVE_LOCKS_REQUIRED(records_.mutex());
  DelegationRecall RecallOf(const Record& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(records_.mutex());
  void SendRecalls(const Recalls& begun) const ABSL_LOCKS_EXCLUDED(records_.mutex());

  const Options options_;
  std::function<void(const DelegationRecall&)> recall_;
  DelegationRecords& records_;
  RecentRecalls recent_recalls_;
};

}  // namespace dafs::server
