// The time after a restart in which clients reclaim what they held: who is still expected, what has
// to wait for them, and which files a lost write has left in doubt.
// Spec: 4.4.1.2 (server failure and recovery), 4.4.1.6, 5.2.4, 6.5.24 (CLAIM_PREVIOUS).
//
// What clients hold is recorded (holdings.h), so only that waits which may conflict with something
// not yet reclaimed: a new OPEN for reservations, one that denies for any open, a LOCK and I/O for
// locks. A file with a write under way when the server ended is its writer's until he has asked
// what became of it. The period ends early when nobody is expected any more.
//
// The records count what was granted, and a client may never have heard of the last of it: it owes
// nothing more once it makes a new request, before which it reclaims its locks (5.2.5). They may
// count too little as well: an OPEN that was answered, or finished after the restart, is its
// client's to reclaim once it has fetched the answer. Opens are expected until the Response Caches
// that hold such answers are discarded, and who was expected may reclaim until the period would
// have ended anyway, if nobody can have had what conflicts with it (4.4.1.6).
// Thread-safe. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/holdings/holdings.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct Caller;

class Grace {
 public:
  // A client that held something when the server ended; its record outlives this.
  struct Expected {
    std::string client_name;  // client_id_string
    Holdings* holdings = nullptr;
  };
  // A write that may have been executed.
  struct Doubt {
    ObjectKey file;
    std::string client_name;
    wire::SessionId session_id;  // whose cache will be asked
  };
  // An open whose reclaim does not count: its client may not have heard of its CLOSE, or the server
  // ended before it had counted its OPEN.
  struct Uncounted {
    ObjectKey file;
    std::string client_name;
    uint64_t owner_sum = 0;  // SumOf the owner of the open
  };
  struct Owed {
    std::vector<Expected> expected;
    // What clients without a record may hold, null if there is none; it outlives this. As any
    // client may be one of them, each may reclaim, whatever may conflict waits for all of them, and
    // the period does not end early.
    Holdings* unknown = nullptr;
    std::vector<Doubt> doubts;
    std::vector<Uncounted> uncounted;
    // Lost sessions with the answer to an OPEN that its client may not have heard.
    std::vector<wire::SessionId> unheard_opens;
  };
  void Start(Owed owed, absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of an owner; the same in each instance of the server.
  static uint64_t SumOf(std::string_view owner);

  // Whether anything at all may have to wait. Cheap: asked for every request.
  bool active() const { return active_.load(std::memory_order_acquire); }
  // Whether files may be open whose opens are not known yet.
  bool expects_opens() const ABSL_LOCKS_EXCLUDED(mutex_);

  // GRACE if it has to wait. Only to be called while active().
  wire::DafsStatus CheckOpen(const Caller& caller, const ObjectKey& file, bool denies)
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::DafsStatus CheckIo(const Caller& caller, const ObjectKey& file, bool has_state)
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::DafsStatus CheckLock(const Caller& caller, const ObjectKey& file)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether `caller` may reclaim an open, or a lock of `file`; EXPIRED if it has nothing (more) to
  // reclaim, or another may have had it.
  wire::DafsStatus MayReclaimOpen(const Caller& caller, bool denies) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::DafsStatus MayReclaimLock(const Caller& caller, const ObjectKey& file) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A lock of `file` was granted that is not reclaimed.
  void Granted(const ObjectKey& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // The open of `owner` has been reclaimed. One that is Uncounted, or is claimed again after it was
  // closed, does not count: each open that is still to come must be expected.
  void Reclaimed(const Caller& caller, const ObjectKey& file, std::string_view owner, bool denies)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ReclaimedLock(const Caller& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  // `caller` asks for something that conflicts with nothing. Of whom it is not known what he held,
  // and who may have held nothing, that tells that he has reclaimed (5.2.5), so that he keeps
  // nobody waiting if he has nothing else to ask for. Only to be called while active().
  void Asks(const Caller& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client will reclaim nothing more.
  void Complete(std::string_view client_name) ABSL_LOCKS_EXCLUDED(mutex_);

  // What clients owe has changed without our doing: one came back as a new instance.
  void Review() ABSL_LOCKS_EXCLUDED(mutex_);

  // The writer has asked about its lost session.
  void Asked(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Its client needs no answer of the lost session any more.
  void Discarded(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the period when its time has come. True once, when it has ended, for whatever reason.
  bool Ended(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Files with new locks; a server that grants more of them within the period lets nobody reclaim.
  static constexpr size_t kGrantedMax = 65536;

  void NewRequest(const Caller& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a client other than the one of this name may still reclaim something that is counted
  // in `count`.
  bool IsOwedToOthers(std::string_view client_name, std::atomic<uint32_t> Holdings::*count) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  wire::DafsStatus CheckDoubt(const Caller& caller, const ObjectKey& file) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Publishes what mutex_ guards to those who only look whether there is anything.
  std::atomic<bool> active_{false};
  // The same of `known_`.
  std::atomic<bool> may_reclaim_{false};
  mutable absl::Mutex mutex_;
  bool told_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Time until_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Holdings*, std::less<>> expected_ ABSL_GUARDED_BY(mutex_);
  Holdings* unknown_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Who was expected in the beginning, and whether with locks.
  std::map<std::string, bool, std::less<>> known_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<ObjectKey> granted_ ABSL_GUARDED_BY(mutex_);
  // Hashes of client, file and owner: opens whose reclaim does not count. Two with one hash make
  // the period longer.
  absl::flat_hash_set<size_t> counted_ ABSL_GUARDED_BY(mutex_);
  std::vector<Doubt> doubts_ ABSL_GUARDED_BY(mutex_);
  std::vector<wire::SessionId> unheard_opens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
