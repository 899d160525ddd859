// The opens of a client, by names that last: the state id that Files hands out is the client's own
// number for an open, and stands for whatever state id the server knows it by now. When the server
// has lost its state the open is reclaimed, the server's name changes, the client's does not.
// Spec: 4.4.1.2 (state ids, crash recovery), 4.4.1.6 (a restarted server has another client_id),
// 6.5.24 (CLAIM_PREVIOUS).
// Thread-safe: shared by the workers of a client. Nothing blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/state/identity.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// What a reclaim tells the server. The owners are the registry and the calls in progress.
struct OpenInfo {
  wire::FileHandle handle;
  std::string owner;
  uint32_t share_access = 0;
  uint32_t share_deny = wire::kShareDenyNone;
  bool executes = false;  // by OPEN_EXECUTE
  Identity who;
};

class Opens {
 public:
  struct Entry {
    std::shared_ptr<const OpenInfo> info;
    wire::StateId state_id;    // the server's name for it
    wire::ClientId client_id;  // under which that is valid; zero: under none any more
    absl::Status lost;         // not OK: it could not be reclaimed, and why
    bool closing = false;      // its CLOSE is under way: nobody uses it any more
  };

  // A new open that the server calls `state_id` in the time of `client_id`. Returns its lasting
  // name, the same one again if it knows this open already.
  wire::StateId Add(OpenInfo info, const wire::StateId& state_id, const wire::ClientId& client_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // nullopt: no such open.
  std::optional<Entry> Find(const wire::StateId& open) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The server's name of `open` in the time of `client_id`, for a request that is about to be sent;
  // nullopt: there is none, look at Find.
  std::optional<wire::StateId> StateIdOf(const wire::StateId& open,
                                         const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The server does not know `state_id` any more. False: it has been reclaimed since.
  bool Forgotten(const wire::StateId& open, const wire::StateId& state_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The open has a new name at the server. A zero state id: it has none, and I/O goes without.
  // False: it was closed meanwhile.
  bool Reclaimed(const wire::StateId& open, const wire::StateId& state_id,
                 const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has only these shares now, and is to be reclaimed with no more.
  void Downgraded(const wire::StateId& open, uint32_t share_access, uint32_t share_deny)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Before its CLOSE, which the server may have carried out when it is lost in the middle.
  void Closing(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(mutex_);
  // It could not be reclaimed: every use of it ends with `why` from now on.
  void Lost(const wire::StateId& open, absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same of every open of `file`.
  void LostAllOf(const wire::FileHandle& file, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // It is closed. Returns what was known of it; nullopt: nothing.
  std::optional<Entry> Remove(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(mutex_);

  // Those that are not valid under `client_id` and not lost.
  std::vector<wire::StateId> Stale(const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  uint64_t last_name_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<wire::StateId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // The names of those that the server knows, so that one open has one name.
  absl::flat_hash_map<wire::StateId, wire::StateId> by_state_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
