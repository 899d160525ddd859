// The records of opens by state id, owner, file and client, for the classes that work on them:
// OpenTable and OpenDoubts.
//
// A state id is the number of this server instance (3 bytes) and a serial number (5 bytes), which
// grows from 1.
// Each of these classes holds mutex() during a step, so that the step is atomic for the other. The
// functions on state ids, except last_serial, need no mutex. A pointer is valid until the mutex is
// released, or an open is added or erased. Nothing blocks or calls the file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "server/store/holdings/holdings.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/object.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// The access and the reservations of an open.
struct Shares {
  uint32_t access = 0;  // wire::kShare...; 0: there is no such open
  uint32_t deny = 0;
  bool deny_delete = false;
  bool has_key = false;
};

// An open belongs to these: there is one open for each. A delegation has an empty owner.
struct OpenOwner {
  wire::ClientId client_id;
  std::string owner;
  ObjectKey key;
  bool is_delegation = false;
  friend bool operator==(const OpenOwner&, const OpenOwner&) = default;
  template <class H>
  friend H AbslHashValue(H h, const OpenOwner& o) {
    return H::combine(std::move(h), o.client_id, o.owner, o.key, o.is_delegation);
  }
};

class OpenRecords {
 public:
  struct Holders {  // number of opens with each access or reservation
    uint32_t readers = 0, writers = 0, deny_read = 0, deny_write = 0, deny_delete = 0, keys = 0;
  };
  struct File {
    ObjectRef object;
    Holders holders;
    uint64_t share_key = 0;                    // of all `keys` holders
    absl::InlinedVector<uint64_t, 2> serials;  // of its opens, with delegations
    bool has_name = true;
    size_t delegations = 0;
    wire::ClientId first;    // client that opened it, of those since it was closed by all
    bool is_shared = false;  // another client opened it since
  };
  struct Record : Shares {
    wire::ClientId client_id;
    std::string owner;
    ObjectKey key;
    bool reclaimed = false;
    bool is_delegation = false;
    Holdings* holdings = nullptr;
    // Counted by std::atomic_ref under the shared lock: reads of one file need not wait.
    mutable uint64_t read_bytes = 0;
    mutable uint64_t written_bytes = 0;
  };
  // A client with opens.
  struct Client {
    absl::flat_hash_set<uint64_t> serials;
    uint64_t last_before_loss = 0;  // of a session: the last open of any client before it
  };

  explicit OpenRecords(uint32_t instance) : instance_(instance & kInstanceMask) {}
  OpenRecords(const OpenRecords&) = delete;
  OpenRecords& operator=(const OpenRecords&) = delete;

  absl::Mutex& mutex() const ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // --- State ids ---

  wire::StateId StateIdOf(uint64_t serial) const;
  static uint64_t SerialOf(const wire::StateId& state_id);
  // Whether `state_id` is one of this instance: BAD_STATEID, STALE_STATEID.
  wire::DafsStatus CheckInstance(const wire::StateId& state_id) const;
  uint64_t last_serial() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return last_serial_; }

  // --- Looking up: null, or 0, if there is none ---

  const Record* Find(uint64_t serial) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Record* FindMutable(uint64_t serial) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t FindSerial(const OpenOwner& owner) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  const File* FindFile(const ObjectKey& key) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  File* FindMutableFile(const ObjectKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Client* FindClient(const wire::ClientId& client_id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Client* FindMutableClient(const wire::ClientId& client_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const absl::flat_hash_map<uint64_t, Record>& all() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return records_;
  }
  const absl::flat_hash_map<wire::ClientId, Client>& clients() const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return clients_;
  }

  // --- Adding and erasing ---

  // Adds an open, with its file, and returns its serial number. The caller fills in the record and
  // counts it among the holders of the file.
  uint64_t Add(OpenOwner owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Erases it, with its file if that has no other open. The caller has counted it off.
  // Returns whose it was.
  OpenOwner Erase(uint64_t serial) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  static constexpr uint32_t kInstanceMask = 0xffffff;
  static constexpr int kSerialBits = 40;

  const uint32_t instance_;
  mutable absl::Mutex mutex_;
  uint64_t last_serial_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Record> records_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ObjectKey, File> files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<OpenOwner, uint64_t> by_owner_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<wire::ClientId, Client> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
