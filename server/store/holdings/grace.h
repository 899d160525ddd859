// The grace period: the time after a restart in which clients reclaim their opens and locks. Tracks
// the clients that may still reclaim, the requests that wait for them, and the files with a write
// that may have been executed.
// Spec: 4.4.1.2 (server failure and recovery), 4.4.1.6, 5.2.4, 6.5.24 (CLAIM_PREVIOUS).
//
// The server has a count of the opens and locks of each client (holdings.h). So a request waits
// only if it may conflict with something not yet reclaimed: a new OPEN waits for reservations, an
// OPEN that denies waits for all opens, LOCK and I/O wait for locks. If a write was in progress
// when the server ended, other clients cannot use the file until the writer has fetched the
// outcome. The period ends early once all expected clients have reclaimed.
//
// The counts may be too high: a client may have missed the last responses that granted something.
// So a new request shows that its client has no more locks and reservations to reclaim: it reclaims
// its locks before it makes new requests (5.2.5).
//
// The counts may be too low as well: after the restart a client may fetch the response to an OPEN
// that it missed, or that the restarted server finished. It then reclaims that open. So opens are
// expected until the Response Caches with such answers are discarded.
//
// Even if the period ends early, an expected client may reclaim until its full time is over, unless
// another client may have held something that conflicts (4.4.1.6).
//
// An export whose file system does not answer at the start is late: its period lasts until its
// clients had time to reclaim after it answered. Clients may reclaim only there by then, and only
// requests there wait for them. The counts are of all exports together. So while an export is late,
// no client counts as having reclaimed everything before it has. The counts stay recorded until the
// last period has ended, in case this instance ends before.
// Thread-safe. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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
    // Under a delegation the client may have any number of opens and locks. The delegation counts
    // as one open, so reclaims do not decrease the count: OpensReclaimed ends it. Until then new
    // locks of others wait.
    bool may_have_delegations = false;
  };
  // A write that may have been executed.
  struct Doubt {
    ObjectKey file;
    std::string client_name;
    wire::SessionId session_id;  // its Response Cache has the outcome
  };
  // An open whose reclaim does not decrease the count: the client may have missed the response to
  // its CLOSE, or the server ended before it counted the OPEN.
  struct Uncounted {
    ObjectKey file;
    std::string client_name;
    uint64_t owner_sum = 0;  // SumOf the owner of the open
  };
  struct Owed {
    std::vector<Expected> expected;
    // The holdings of clients without a record; null if there are none. They outlive this. Any
    // client may be one of these. So every client may reclaim, every request that may conflict
    // waits, and the period does not end early.
    Holdings* unknown = nullptr;
    std::vector<Doubt> doubts;
    std::vector<Uncounted> uncounted;
    // Lost sessions with the response to an OPEN that the client may not have received.
    std::vector<wire::SessionId> unknown_opens;
    // Called when the time limit of the exports that were not late ends their period before that of
    // the others, before a request sees that. Must not call the Grace. Null: nothing.
    std::function<void()> on_partly_over;
  };
  // `late`: the exports that do not answer yet. No request reaches their files before Arrived.
  void Start(Owed owed, absl::Time until, const std::vector<size_t>& late = {})
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A late export answers and will be served. `owed` has what its journals add: only the last
  // three members are used. Its clients may reclaim until `until`.
  void Arrived(size_t export_index, Owed owed, absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the function that finds the export of a file. Call once, before Start.
  using ExportOf = std::function<std::optional<size_t>(const ObjectKey& file)>;
  void SetExportOf(ExportOf export_of) { export_of_ = std::move(export_of); }

  // Returns a hash of `owner`, the same in each instance of the server.
  static uint64_t SumOf(std::string_view owner);

  // Returns whether any request may have to wait. Cheap: called for every request.
  bool active() const { return active_.load(std::memory_order_acquire); }
  // Returns whether opens are still expected to be reclaimed, so that `file` may be open although
  // the server has no open of it.
  bool expects_opens(const ObjectKey& file) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Return GRACE if the request has to wait. Only to be called while active().
  wire::DafsStatus CheckOpen(const Caller& caller, const ObjectKey& file, bool denies)
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::DafsStatus CheckIo(const Caller& caller, const ObjectKey& file, bool has_state)
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::DafsStatus CheckLock(const Caller& caller, const ObjectKey& file)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Return OK if `caller` may reclaim an open, or a lock of `file`. EXPIRED: it has nothing more to
  // reclaim, or another client may have held it in the meantime.
  wire::DafsStatus MayReclaimOpen(const Caller& caller, const ObjectKey& file, bool denies) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  wire::DafsStatus MayReclaimLock(const Caller& caller, const ObjectKey& file) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A new lock of `file` was granted, not a reclaimed one.
  void Granted(const ObjectKey& file) ABSL_LOCKS_EXCLUDED(mutex_);
  // The open of `owner` has been reclaimed. An Uncounted open, or one reclaimed again after it was
  // closed, does not decrease the count: the opens that are still to come must stay expected.
  void Reclaimed(const Caller& caller, const ObjectKey& file, std::string_view owner, bool denies)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void ReclaimedLock(const Caller& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  // `caller` makes a request that cannot conflict. If its holdings are unknown, the request shows
  // that it has reclaimed its locks (5.2.5), so other clients no longer wait for them. Without this
  // a client that held nothing would delay others. Only to be called while active().
  void NoteRequest(const Caller& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client has reclaimed all its opens. Ignored while an export is late.
  void OpensReclaimed(const Caller& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client will reclaim nothing more.
  void Complete(std::string_view client_name) ABSL_LOCKS_EXCLUDED(mutex_);

  // Rereads the holdings after another component changed them: a client came back as a new
  // instance.
  void Review() ABSL_LOCKS_EXCLUDED(mutex_);

  // The writer has fetched the outcomes in its lost session.
  void Asked(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client needs no more responses of the lost session.
  void Discarded(const wire::SessionId& session_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Exports whose period has ended.
  struct Ending {
    bool others = false;       // all exports that were not late
    std::vector<size_t> late;  // of those that were late, the ones that have ended now
    std::vector<size_t> was_late;
    bool In(size_t export_index) const;
  };
  // Ends the period at its time limit. Returns each export once, after its period has ended for any
  // reason; nullopt if there is none.
  std::optional<Ending> Ended(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // For the administrator.
  struct State {
    bool is_active = false;
    absl::Time until;            // the latest end, except for late exports
    size_t expected = 0;         // clients that may still reclaim something
    bool awaits_anyone = false;  // the clients of the earlier instance are not known
  };
  State GetState() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Files with new locks. If the server grants locks on more files within the period, locks that
  // are not expected can no longer be reclaimed.
  static constexpr size_t kGrantedMax = 65536;

  void NewRequest(const Caller& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether a client other than `client_name` may still reclaim something counted in
  // `count`.
  bool IsOwedToOthers(std::string_view client_name, std::atomic<uint32_t> Holdings::*count) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  wire::DafsStatus CheckDoubt(const Caller& caller, const ObjectKey& file) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Ends the period if nothing is awaited any more.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the period of this file's export has reached its time limit.
  bool IsOver(const ObjectKey& file) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsAnyLate() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void ForgetAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Lets requests skip mutex_ when no client is expected.
  std::atomic<bool> active_{false};
  // The same for `known_` and `unknown_`: whether any client may reclaim.
  std::atomic<bool> may_reclaim_{false};
  mutable absl::Mutex mutex_;
  bool end_is_reported_ ABSL_GUARDED_BY(mutex_) = true;  // Ended has reported the end of the period
  absl::Time until_ ABSL_GUARDED_BY(mutex_);
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;  // until_ has passed
  struct Late {
    absl::Time until = absl::InfiniteFuture();
    bool has_arrived = false;
    bool reported = false;
  };
  // Since the start, also of those whose period has ended.
  std::map<size_t, Late> late_ ABSL_GUARDED_BY(mutex_);
  ExportOf export_of_;
  std::function<void()> on_partly_over_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Holdings*, std::less<>> expected_ ABSL_GUARDED_BY(mutex_);
  // Those of `expected_` that may have delegations.
  std::set<std::string, std::less<>> delegated_ ABSL_GUARDED_BY(mutex_);
  Holdings* unknown_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // The clients expected at the start, and whether each may have had locks.
  std::map<std::string, bool, std::less<>> known_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<ObjectKey> granted_ ABSL_GUARDED_BY(mutex_);
  // Hashes of client, file and owner: opens whose reclaim does not decrease the count. A hash
  // collision makes the period longer.
  absl::flat_hash_set<size_t> counted_ ABSL_GUARDED_BY(mutex_);
  std::vector<Doubt> doubts_ ABSL_GUARDED_BY(mutex_);
  std::vector<wire::SessionId> unknown_opens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
