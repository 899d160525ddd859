// The opens that clients hold: state ids, share reservations, share keys, delete dispositions.
// Spec: 4.4.1.2 (opens, share reservations, state ids), 4.4.2 (share keys), 6.5.7, 6.5.24, 6.5.26,
// 6.5.33.
//
// An open belongs to (client id, owner, file); a second OPEN of the same three is merged into it. A
// state id is the number of this server instance (3 bytes) and a serial number (5 bytes). The table
// can thus distinguish a state id of an earlier instance from an invalid one.
// Thread-safe. Nothing here blocks or calls the file system.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "server/store/holdings/holdings.h"
#include "server/store/holdings/open_use.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/objects/object.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct OpenRequest {
  wire::ClientId client_id;
  std::string owner;
  uint32_t access = 0;  // wire::kShare...
  uint32_t deny = 0;
  bool deny_delete = false;
  std::optional<uint64_t> share_key;  // with share key type BOTH
  Holdings* holdings = nullptr;       // of the client, outlives the open; may be null
  bool reclaims = false;              // the file was open before the server was started
  bool is_delegation = false;         // the owner is empty, and it denies nothing and is not denied

  bool denies() const { return deny != 0 || deny_delete || share_key.has_value(); }
};

// The access and the reservations of an open.
struct Shares {
  uint32_t access = 0;  // 0: there is no such open
  uint32_t deny = 0;
  bool deny_delete = false;
  bool has_key = false;
};

// The access that an open permits.
struct OpenRights {
  ObjectRef object;  // none if the open does not keep descriptors: resolve the handle
  uint32_t access = 0;
  bool reclaimed = false;
  bool is_delegation = false;
};

// The result of a CLOSE.
struct Closed {
  ObjectRef object;         // none: as in OpenRights
  std::string owner;        // of the open
  bool last_open = false;   // this was the last open of the file
  bool last_write = false;  // this was the last open for writing
  bool is_delegation = false;
  bool wrote = false;            // it was open for writing: ClosedToWrite is still to be called
  OpenUse use;                   // as CountUse has counted
  Holdings* holdings = nullptr;  // of the client
};

class OpenTable {
 public:
  // A client holds at most `most_of_client` opens, which bounds the memory of the table.
  // `promises` learns which files are open for writing; borrowed.
  OpenTable(uint32_t instance, size_t most_of_client, Promises& promises)
      : instance_(instance & kInstanceMask), most_of_client_(most_of_client), promises_(promises) {}

  // Returns whether the client may hold one more open. A hint: another request of the client may
  // reach the limit first.
  bool MayOpen(const wire::ClientId& client_id) const;

  // Opens `object`. With `pin` its descriptors are kept while the file is open. DENIED: share
  // conflict; KEY_MISMATCH: another share key; RESOURCE: the client has reached its limit.
  // *before: the shares of the open that the request is merged into.
  wire::DafsStatus Open(const OpenRequest& request, ObjectRef object, bool pin,
                        wire::StateId* state_id, Shares* before = nullptr);
  // Removes the shares that `request` added to the open that it was merged into. `before`: the
  // shares of that open before the merge. *drop_write as for Downgrade.
  void TakeBack(const OpenRequest& request, const Shares& before, const ObjectKey& key,
                ObjectRef* drop_write);
  // Returns whether a reclaimed open already grants all of `request`, which then repeats the claim.
  bool IsReclaimed(const OpenRequest& request, const ObjectKey& key) const;

  // Keeps the descriptors of `object` while the file is open. Returns whether the file is open.
  bool Pin(const ObjectRef& object);

  // --- Opens that a client may not know ---
  //
  // A process of a client may be killed before it stores what the last responses granted or
  // claimed, and another process continues the client. Such an open, or delegation, is never
  // closed, so a file that loses its last name would be kept for it. Therefore the server
  // sends the client a query for those of a file without a name that are older than the loss of a
  // session of the client.
  struct Doubt {
    wire::ClientId client_id;
    wire::StateId state_id;
    ObjectKey key;
    bool is_delegation = false;
  };
  // Called for each, on the thread of a request, perhaps with a lock of the store held. It must not
  // block. Set it before the first request.
  void SetAsker(std::function<void(const Doubt&)> ask) { ask_ = std::move(ask); }
  // The file has no name any more, and is kept while it is open.
  void Unnamed(const ObjectKey& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // A session of the client has ended without DISCONNECT, and grants nothing more.
  void SessionLost(const wire::ClientId& client_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // All of the client, for a new Back-control Channel.
  std::vector<Doubt> DoubtsOf(const wire::ClientId& client_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether it is still open.
  bool Holds(const Doubt& doubt) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Looks up the rights of `state_id` of `client_id` on the file `key`, and its owner.
  // BAD_STATEID, OLD_STATEID (its owner has closed the file and opened it again), STALE_STATEID.
  wire::DafsStatus Find(const wire::ClientId& client_id, const wire::StateId& state_id,
                        const ObjectKey& key, OpenRights* rights,
                        std::string* owner = nullptr) const;

  // Returns DENIED if a reservation forbids I/O (`access`) that no open permits; otherwise OK.
  // `state_id`: the open that the I/O names, whose own reservation is ignored; zero for none.
  wire::DafsStatus CheckDenied(const ObjectKey& key, uint32_t access,
                               const wire::StateId& state_id) const;

  // Adds to what the open was used for. Does nothing for a state id of no open.
  void CountUse(const wire::StateId& state_id, uint64_t read_bytes, uint64_t written_bytes) const;

  // Ends an open.
  wire::DafsStatus Close(const wire::ClientId& client_id, const wire::StateId& state_id,
                         const ObjectKey& key, Closed* closed);

  // Replaces access and deny by subsets, and releases the share key unless `share_key` is that of
  // the open. INVAL for anything that is not in effect. *drop_write is set if no open for writing
  // is left.
  wire::DafsStatus Downgrade(const wire::ClientId& client_id, const wire::StateId& state_id,
                             const ObjectKey& key, uint32_t access, uint32_t deny,
                             std::optional<uint64_t> share_key, ObjectRef* drop_write);

  // Returns every state id of a client, with its file.
  std::vector<std::pair<wire::StateId, ObjectKey>> OpensOf(const wire::ClientId& client_id) const;

  // Opens and locks of all clients on the files that `wants` accepts. `wants` runs under the lock
  // of the table.
  struct Holding {
    wire::ClientId client_id;
    wire::StateId state_id;
    ObjectKey key;
    bool is_delegation = false;
  };
  std::vector<Holding> HeldIn(absl::FunctionRef<bool(const ObjectKey& key)> wants) const;

  // Finds the file of a delegation. BAD_STATEID, OLD_STATEID, STALE_STATEID.
  wire::DafsStatus FindDelegation(const wire::ClientId& client_id, const wire::StateId& state_id,
                                  ObjectKey* key) const;
  // Adds to the access of a delegation.
  void ExtendDelegation(const wire::StateId& state_id, uint32_t access);
  // The state id of this delegation fails with EXPIRED after it is closed.
  void RevokeDelegation(const wire::StateId& state_id);
  // The opens of a file that are no delegations.
  struct Sharing {
    bool is_written = false;  // some are for writing
    bool is_shared = false;   // some are, or were since the file was first opened, of other clients
    bool is_denied = false;   // some deny something or have a share key
  };
  Sharing SharingOf(const ObjectKey& key, const wire::ClientId& client_id) const;

  // Returns the clients with an expired lease that have the file open. Their opens may be revoked.
  std::vector<wire::ClientId> ExpiredHolders(const ObjectKey& key) const;
  // Marks the client as revoked: its state ids fail with EXPIRED once their opens are closed. The
  // caller then closes the opens.
  void Revoke(const wire::ClientId& client_id);

  // Whether the file is open, or a client has a delegation of it.
  bool IsOpen(const ObjectKey& key) const;
  // Returns OK if a name of the file may be removed. DENYDISP_CONFLICT: an open forbids it, or with
  // `check_open` there is any open that is no delegation.
  wire::DafsStatus CheckRemoval(const ObjectKey& key, bool check_open) const;

  // Returns the object of a file if its descriptors are kept for its opens; otherwise none.
  ObjectRef FindObject(const ObjectKey& key) const;

  size_t size() const;

 private:
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
  struct Owner {
    wire::ClientId client_id;
    std::string owner;
    ObjectKey key;
    bool is_delegation = false;
    friend bool operator==(const Owner&, const Owner&) = default;
    template <class H>
    friend H AbslHashValue(H h, const Owner& o) {
      return H::combine(std::move(h), o.client_id, o.owner, o.key, o.is_delegation);
    }
  };

  // With more revoked clients or delegations the old ones receive BAD_STATEID instead of EXPIRED.
  static constexpr size_t kRevokedMax = 65536;
  // Number of closed state ids that are remembered, so that their use fails with OLD_STATEID.
  static constexpr size_t kClosedMax = 256;
  static constexpr uint32_t kInstanceMask = 0xffffff;
  static constexpr int kSerialBits = 40;

  struct ClosedOpen {
    uint64_t serial = 0;
    Owner owner;
  };

  wire::StateId StateIdOf(uint64_t serial) const;
  static uint64_t SerialOf(const wire::StateId& state_id);
  bool IsSuperseded(const wire::ClientId& client_id, uint64_t serial, const ObjectKey& key) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  static void Count(Holders& holders, const Record& record, int sign);
  static void Account(const Record& record, int sign);
  static wire::DafsStatus CheckConflict(const File& file, const Holders& others,
                                        const OpenRequest& request);
  // Replaces the shares of `record`, of `file`, by a subset.
  void Reduce(Record& record, File& file, const Shares& shares, ObjectRef* drop_write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether `state_id` is one of this instance: BAD_STATEID, STALE_STATEID.
  wire::DafsStatus CheckInstance(const wire::StateId& state_id) const;
  wire::DafsStatus FindRecord(const wire::ClientId& client_id, const wire::StateId& state_id,
                              const ObjectKey& key, uint64_t* serial) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  bool IsDoubtful(uint64_t serial) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Doubt DoubtOf(uint64_t serial) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::vector<Doubt> DoubtsOfLocked(const wire::ClientId& client_id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsFull(const wire::ClientId& client_id) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const uint32_t instance_;
  const size_t most_of_client_;
  Promises& promises_;
  std::function<void(const Doubt&)> ask_ = [](const Doubt&) {};
  mutable absl::Mutex mutex_;
  uint64_t last_serial_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t deniers_ ABSL_GUARDED_BY(mutex_) = 0;  // opens that deny anything
  absl::flat_hash_map<uint64_t, Record> records_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ObjectKey, File> files_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<wire::ClientId> revoked_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<uint64_t> revoked_delegations_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Owner, uint64_t> by_owner_ ABSL_GUARDED_BY(mutex_);
  std::array<ClosedOpen, kClosedMax> closed_ ABSL_GUARDED_BY(mutex_);  // a ring
  size_t next_closed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<wire::ClientId, absl::flat_hash_set<uint64_t>> by_client_
      ABSL_GUARDED_BY(mutex_);
  // Clients that have lost a session: the serial of the last open before the loss.
  absl::flat_hash_map<wire::ClientId, uint64_t> doubtful_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
