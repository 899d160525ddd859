// The records of open delegations by state id, file and client, for the classes that work on them:
// Delegations, AdmittedClients, DelegationClaims and HolderValues.
//
// Each of these holds mutex() during a step, so that the step is atomic for the others. Without the
// mutex a thread may call only count, writes and MayHave. A pointer to a record or client is valid
// until the mutex is released or one is added. Nothing blocks or calls the file system.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/delegations/delegation.h"
#include "server/store/holdings/delegations/recall_times.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class DelegationRecords {
 public:
  // Call them without the mutex.
  using Dones = std::vector<absl::AnyInvocable<void()>>;

  struct Record {
    Delegation delegation;
    bool is_recalled = false;
    bool is_revoked = false;  // it counts as revoked when it ends
    absl::Time recalled_at;
    bool awaits_claim = false;
    absl::Time claim_until;
    Dones ended;
    // BC_GETATTR.
    bool is_asked = false;
    ReportedValues reported;
    absl::Time reported_at = absl::InfinitePast();
    Dones answered;
  };
  // A client that is admitted or has delegations.
  struct Client {
    std::string name;
    bool is_admitted = false;
    size_t held = 0;
    std::set<uint64_t> idle;  // state ids not recalled, the oldest first
    RecallTimes recalls;
  };

  DelegationRecords() = default;
  DelegationRecords(const DelegationRecords&) = delete;
  DelegationRecords& operator=(const DelegationRecords&) = delete;

  absl::Mutex& mutex() const ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // --- Without the mutex ---

  // The number of all, and of write delegations.
  size_t count() const { return count_.load(std::memory_order_seq_cst); }
  size_t writes() const { return writes_.load(std::memory_order_seq_cst); }
  // Whether any client may have one of the file. A hint, but false only if none has.
  bool MayHave(const ObjectKey& key) const {
    return at_place_[absl::HashOf(key) % at_place_.size()].load(std::memory_order_seq_cst) != 0;
  }

  // --- Records ---

  // Null if there is none.
  Record* Find(const wire::StateId& state_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record* FindById(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The number of those of a file, also those that await a claim.
  size_t CountOf(const ObjectKey& key) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The first of them for which `is_it` returns true; null if there is none. Examines no further
  // ones. `is_it` must not add or erase one.
  Record* FindOf(const ObjectKey& key, absl::FunctionRef<bool(Record&)> is_it)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those for which `is_wanted` returns true. Examines all.
  std::vector<Record*> Where(absl::FunctionRef<bool(const Record&)> is_wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const Delegation& delegation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetType(Record& record, Delegation::Type type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The recall begins. It must not have begun.
  void BeginRecall(Record& record, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the functions that wait for its end to `over`.
  void Erase(Record& record, Dones& over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Clients ---

  // Null if it is not admitted and has none.
  Client* FindClient(const wire::ClientId& client_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Client& FindOrAddClient(const wire::ClientId& client_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the client unless it is admitted or has delegations.
  void EraseUnused(const wire::ClientId& client_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of all clients, since the start.
  const RecallTimes& recalls() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return recalls_; }

 private:
  std::atomic<uint32_t>& CountAt(const ObjectKey& key) {
    return at_place_[absl::HashOf(key) % at_place_.size()];
  }

  // Read without the mutex: see the comment on granting, in delegations.h.
  std::atomic<size_t> count_{0};   // of records_
  std::atomic<size_t> writes_{0};  // of them, write delegations
  // The number of delegations by hash of the key.
  std::array<std::atomic<uint32_t>, 65536> at_place_{};
  mutable absl::Mutex mutex_;
  // By the state id as a number, which grows.
  absl::flat_hash_map<uint64_t, Record> records_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ObjectKey, absl::InlinedVector<uint64_t, 1>> by_key_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::ClientId, Client> clients_ ABSL_GUARDED_BY(mutex_);
  RecallTimes recalls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
