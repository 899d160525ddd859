// The opens of a client, each with its file, owner, access and user. Files hands out state ids that
// are permanent names of opens; whatever uses an open keeps only this name. This table maps it to
// the server's present state id. After the server lost its state and the open was reclaimed, the
// server's state id is another one, and the permanent name stays.
// Spec: 4.4.1.2 (state ids, crash recovery), 4.4.1.6 (a restarted server has another client_id),
// 6.5.24 (CLAIM_PREVIOUS).
// Thread-safe: shared by the workers of a client. Nothing blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/state/records/identity.h"
#include "client/state/records/state_recorder.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// The arguments of an open, for a reclaim and for the CLOSE. Owned by this
// table and by the calls in progress.
struct OpenInfo {
  wire::FileHandle handle;
  std::string owner;
  uint32_t share_access = 0;
  uint32_t share_deny = wire::kShareDenyNone;
  bool deny_delete = false;  // not recorded: only libdafs has such opens, and share keys
  std::optional<uint64_t> share_key;
  bool executes = false;  // opened by OPEN_EXECUTE
  Identity user;

  // Whether another client may have taken what the open keeps from it, once the server forgot it.
  bool Reserves() const {
    return share_deny != wire::kShareDenyNone || deny_delete || share_key.has_value();
  }
};

class Opens {
 public:
  struct Entry {
    std::shared_ptr<const OpenInfo> info;
    wire::StateId state_id;    // the server's state id
    wire::ClientId client_id;  // under which state_id is valid; zero: not valid any more
    absl::Status lost;         // not OK: why it could not be reclaimed
    bool closing = false;      // its CLOSE is in progress: it has no user any more
    bool is_local = false;     // under a delegation, whose state id it has
    StateRecorder::Slot slot = 0;
  };

  // Records all entries from now on. Before the first one. `recorder` must outlive this.
  void RecordIn(StateRecorder* recorder) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    recorder_ = recorder;
  }

  // The client id of the latest session.
  void SetClient(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    client_id_ = client_id;
  }

  // Adds an open with the server's `state_id` under `client_id`. Returns the client's state id for
  // it: the existing one if the table has this open already.
  wire::StateId Add(OpenInfo info, const wire::StateId& state_id, const wire::ClientId& client_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds an open under a delegation with `state_id`. It gets a permanent name, and the
  // server does not know it. Only for DelegationTable, which records the name.
  wire::StateId AddLocal(OpenInfo info, const wire::StateId& state_id,
                         const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns nullopt if there is no such open.
  std::optional<Entry> Find(const wire::StateId& open) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The arguments of the open; null if there is no such open.
  std::shared_ptr<const OpenInfo> InfoOf(const wire::StateId& open) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The server's state id of `open` under `client_id`, for a request about to be sent. nullopt:
  // none is valid; Find shows why.
  std::optional<wire::StateId> StateIdOf(const wire::StateId& open,
                                         const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether it is the server's state id of an open, also of one whose CLOSE is in progress.
  bool HasStateId(const wire::StateId& state_id) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return by_state_id_.contains(state_id);
  }
  // Call when the server does not know `state_id` any more. False: the open has been reclaimed
  // since.
  bool Forgotten(const wire::StateId& open, const wire::StateId& state_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Stores the server's new state id. Zero: the server has none, and I/O is sent without one.
  // False: the open was closed meanwhile.
  bool Reclaimed(const wire::StateId& open, const wire::StateId& state_id,
                 const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records the reduced share modes. A reclaim claims only these.
  void Downgraded(const wire::StateId& open, uint32_t share_access, uint32_t share_deny)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Call before its CLOSE. The server may execute that even if the session is lost meanwhile.
  void Closing(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records that it could not be reclaimed. From now on every use fails with `why`.
  void Lost(const wire::StateId& open, absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for every open of `file`.
  void LostAllOf(const wire::FileHandle& file, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes `open`, which is the same open of the server as `kept`: they have one owner and file.
  void Merge(const wire::StateId& open, const wire::StateId& kept) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes a closed open and returns its entry; nullopt: there was none.
  std::optional<Entry> Remove(const wire::StateId& open) ABSL_LOCKS_EXCLUDED(mutex_);

  // The opens that are not valid under `client_id` and not lost.
  std::vector<wire::StateId> Stale(const wire::ClientId& client_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t last_name() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return last_name_;
  }

  // For a program that continues the client (docs/restart.md): all entries by their names.
  // Restore: into an empty table. False: two are the same.
  struct Saved {
    uint64_t last_name = 0;
    std::vector<std::pair<wire::StateId, Entry>> entries;
  };
  Saved Save() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool Restore(Saved saved) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Owner = std::pair<wire::FileHandle, std::string>;
  static Owner OwnerOf(const OpenInfo& info) { return {info.handle, info.owner}; }
  void Record(const wire::StateId& name, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The name of the entry that is this open, or zero.
  wire::StateId Known(const OpenInfo& info, const wire::StateId& state_id,
                      const wire::ClientId& client_id) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void SetStateId(const wire::StateId& name, Entry& entry, const wire::StateId& state_id,
                  const wire::ClientId& client_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropStateId(const wire::StateId& name, const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  StateRecorder* recorder_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t last_name_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<wire::StateId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // From the server's state id to the client's, so that one open has one entry.
  absl::flat_hash_map<wire::StateId, wire::StateId> by_state_id_ ABSL_GUARDED_BY(mutex_);
  // The entries of Restore. An OPEN that the kernel sends again may find its open there, with a
  // state id of another instance of the server.
  absl::flat_hash_map<Owner, wire::StateId> restored_ ABSL_GUARDED_BY(mutex_);
  wire::ClientId client_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
