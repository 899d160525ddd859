// The credentials that a client has registered: maps an identity to its cred_handle.
// Spec: 3.1.1.2 (registration and caching), 6.2.8, 6.2.9: a handle is valid on every session of the
// client_id. The server keeps a negotiated number of handles.
// Thread-safe; nothing blocks. If there is no handle, the caller registers one
// (client/recovery/registration.h).
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "client/state/records/identity.h"
#include "client/state/records/state_recorder.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Credentials {
 public:
  // Records all handles, and keeps that up to date. Once. `recorder` must outlive this.
  void RecordIn(StateRecorder* recorder) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the handle of `user` under `client_id` and marks it as used. nullopt: the caller must
  // register it.
  std::optional<wire::CredHandle> Find(const wire::ClientId& client_id, const Identity& user)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // After REGISTER_CRED: stores `handle` for `user`, unless another worker has already stored one.
  // Returns handles to release at the server: `handle` itself if it came second, and the least
  // recently used ones beyond `most`. A new `client_id` drops all handles of the earlier one.
  std::vector<wire::CredHandle> Insert(const wire::ClientId& client_id, const Identity& user,
                                       const wire::CredHandle& handle, uint32_t most)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Call when the server does not know `handle` any more (NO_CREDS).
  void Forget(const wire::CredHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes and returns the least recently used handle, to make room at the server (RESOURCE).
  std::optional<wire::CredHandle> TakeOldest() ABSL_LOCKS_EXCLUDED(mutex_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

  struct Entry {
    Identity user;
    wire::CredHandle handle;
    StateRecorder::Slot slot = 0;
  };
  // For a program that continues the client (docs/restart.md), which inserts them again: all
  // handles under `client_id`, the most recently used first.
  std::vector<Entry> Save(wire::ClientId* client_id) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Erase(std::list<Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  StateRecorder* recorder_ ABSL_GUARDED_BY(mutex_) = nullptr;
  wire::ClientId client_id_ ABSL_GUARDED_BY(mutex_);
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the most recently used first
  absl::flat_hash_map<Identity, std::list<Entry>::iterator> by_identity_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
