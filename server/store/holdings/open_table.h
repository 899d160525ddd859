// The opens that clients hold: state ids, share reservations, share keys, delete dispositions.
// Spec: 4.4.1.2 (opens, share reservations, state ids), 4.4.2 (share keys), 6.5.7, 6.5.24, 6.5.26,
// 6.5.33.
//
// An open belongs to (client id, owner, file); a second OPEN of the same three is merged into it. A
// state id of an earlier instance of the server is distinguished from an invalid one.
// Thread-safe. Nothing here blocks or calls the file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "server/store/holdings/holdings.h"
#include "server/store/holdings/open_records.h"
#include "server/store/holdings/open_use.h"
#include "server/store/holdings/past_state_ids.h"
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
  // A client holds at most `most_of_client` opens, which bounds the memory of the records.
  // `promises` learns which files are open for writing. Both outlive this.
  OpenTable(size_t most_of_client, Promises& promises, OpenRecords& records)
      : most_of_client_(most_of_client), promises_(promises), records_(records) {}

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
  // The opens of a file that are not delegations.
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
  // `check_open` there is any open that is not a delegation.
  wire::DafsStatus CheckRemoval(const ObjectKey& key, bool check_open) const;

  // Returns the object of a file if its descriptors are kept for its opens; otherwise none.
  ObjectRef FindObject(const ObjectKey& key) const;

  size_t size() const;

 private:
  using Holders = OpenRecords::Holders;
  using File = OpenRecords::File;
  using Record = OpenRecords::Record;

  bool IsFull(const wire::ClientId& client_id) const ABSL_SHARED_LOCKS_REQUIRED(records_.mutex());
  bool IsSuperseded(const wire::ClientId& client_id, uint64_t serial, const ObjectKey& key) const
      ABSL_SHARED_LOCKS_REQUIRED(records_.mutex());
  static void Count(Holders& holders, const Record& record, int sign);
  static void Account(const Record& record, int sign);
  static wire::DafsStatus CheckConflict(const File& file, const Holders& others,
                                        const OpenRequest& request);
  // Adds what the request wants to an open and its file.
  static void Merge(const OpenRequest& request, Record& record, File& file);
  // Replaces the shares of `record`, of `file`, by a subset.
  void Reduce(Record& record, File& file, const Shares& shares, ObjectRef* drop_write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(records_.mutex());
  wire::DafsStatus FindRecord(const wire::ClientId& client_id, const wire::StateId& state_id,
                              const ObjectKey& key, uint64_t* serial) const
      ABSL_SHARED_LOCKS_REQUIRED(records_.mutex());

  const size_t most_of_client_;
  Promises& promises_;
  OpenRecords& records_;
  size_t deniers_ ABSL_GUARDED_BY(records_.mutex()) = 0;  // opens that deny anything
  PastStateIds past_ ABSL_GUARDED_BY(records_.mutex());
};

}  // namespace dafs::server
