// The first step of a restarted server. It finishes the journals of the sessions of an earlier
// instance, so that each records for every request whether it was executed, and its response. The
// file system shows that. So the requests in an export are settled after it was opened, before
// other requests reach it. Until then queries of their outcome get DELAY.
// Spec: 5.2.4. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clients/response_cache.h"
#include "server/store/holdings/grace.h"
#include "server/store/store.h"

namespace dafs::server {

// The last requests of clients that may not know the outcome.
struct UnknownOutcomes {
  std::vector<Grace::Doubt> doubts;  // writes that may have been executed in part
  std::vector<Grace::Uncounted> opens;
  std::vector<wire::SessionId> opened_in;  // sessions whose cache has the response to an OPEN
  // The executed LOCKUs of each client: these locks are no longer counted, but may be reclaimed.
  absl::flat_hash_map<std::string, uint32_t> unlocks;
};

class JournalRecovery {
 public:
  // Reads the caches of the lost sessions. Accesses no exported file system. `responses` and
  // `store` outlive this. `late` receives what an export adds after Start.
  JournalRecovery(const ResponseCache& responses, Store& store,
                  std::function<void(size_t export_index, UnknownOutcomes unknown)> late);

  // Settles the requests in an export, which was opened just now. Blocks on its file system. Call
  // once for each export, from any thread.
  void Settle(size_t export_index) ABSL_LOCKS_EXCLUDED(mutex_);

  // Call once, before the server accepts clients. Calls `start` at once, with what was found in the
  // settled exports and with the indices of the others, which go to `late` when they are settled.
  void Start(
      absl::FunctionRef<void(UnknownOutcomes unknown, const std::vector<size_t>& late)> start)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A request of which only the file system shows whether it was executed, or its result.
  struct Unsettled {
    std::shared_ptr<SessionCache> cache;
    uint16_t stream = 0;
    wire::FsHandle fshandle;
  };
  struct Counts {
    size_t executed = 0, not_executed = 0, damaged = 0;
    void Log() const;
  };
  void Read(const std::shared_ptr<SessionCache>& cache) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Unsettled> Take(std::optional<size_t> export_index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until `deadline` for a file system that cannot show the outcome yet.
  void SettleSlot(SessionCache& cache, JournalSlot& slot, absl::Time deadline,
                  UnknownOutcomes& unknown, Counts& counts) const;

  Store& store_;
  const std::function<void(size_t, UnknownOutcomes)> late_;
  absl::Mutex mutex_;  // not held while a file system is accessed
  std::vector<Unsettled> unsettled_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> is_settled_ ABSL_GUARDED_BY(mutex_);  // by export
  size_t begun_ ABSL_GUARDED_BY(mutex_) = 0;              // calls of Settle
  bool has_started_ ABSL_GUARDED_BY(mutex_) = false;
  UnknownOutcomes unknown_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
