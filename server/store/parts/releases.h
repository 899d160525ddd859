// The end of what clients hold: of one open by CLOSE, of everything when a client is gone or its
// lease has expired, and by revocation. Spec: 6.5.7, 4.4.1.2.
// Thread-safe. Blocks on the file system. Unless noted, the caller holds no lock of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/holdings.h"
#include "server/store/holdings/locks/lock_table.h"
#include "server/store/holdings/open_doubts.h"
#include "server/store/holdings/open_table.h"
#include "server/store/objects/handle.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

// Updates the lock count of a client: make it before an owner's locks on a file change, destroy it
// after. The caller holds the file's lock.
class LockCount {
 public:
  LockCount(LockTable& table, const ObjectKey& file, const LockOwner& owner, Holdings* holdings)
      : table_(table),
        file_(file),
        owner_(owner),
        holdings_(holdings),
        before_(holdings != nullptr ? table.Held(file, owner).size() : 0) {}
  ~LockCount() {
    if (holdings_ == nullptr) return;
    holdings_->locks += static_cast<uint32_t>(table_.Held(file_, owner_).size() - before_);
  }
  LockCount(const LockCount&) = delete;
  LockCount& operator=(const LockCount&) = delete;

 private:
  LockTable& table_;
  const ObjectKey& file_;
  const LockOwner& owner_;
  Holdings* const holdings_;
  const size_t before_;
};

class Releases {
 public:
  // Borrowed.
  explicit Releases(StoreParts& store) : store_(store) {}

  // Closes an open or a delegation, and releases the locks of an open. The last close also removes
  // the file's orphan link, unless another open of the file may still be reclaimed.
  // `use`: receives what it was used for. BAD_STATEID, OLD_STATEID, STALE_STATEID; EXPIRED: it was
  // revoked.
  wire::DafsStatus CloseOpen(const wire::ClientId& client_id, const wire::StateId& state_id,
                             const ObjectKey& key, OpenUse* use = nullptr);
  // CloseOpen, for a caller that holds the file's lock. The same statuses.
  wire::DafsStatus CloseLocked(const wire::ClientId& client_id, const wire::StateId& state_id,
                               const ObjectKey& key, OpenUse* use = nullptr);

  // Closes every open of a client that is gone (new verifier, lease expired) and releases its
  // locks.
  void ReleaseClient(const wire::ClientId& client_id);
  // ReleaseClient of `from`, of which `to` is a later instance. For a lease time it may claim the
  // write delegations of `from` (CLAIM_DELEGATE_PREV).
  void SupersedeClient(const wire::ClientId& from, const wire::ClientId& to, std::string_view name);
  // For the administrator: ends the open of this lock owner of a file as a revocation does. Its
  // locks are released and waiters get theirs; its state id then fails with EXPIRED, so that the
  // client knows. Returns false if there is no such open. Blocks on the file system.
  bool RevokeOwner(const ObjectKey& file, const wire::ClientId& client_id, std::string_view owner);
  // As ReleaseClient, for a client that may return: its state ids then fail with EXPIRED.
  void ExpireClient(const wire::ClientId& client_id);

  // Ends an open or a delegation that its client does not know. Blocks on the file system.
  void CloseUnknown(const OpenDoubts::Doubt& doubt);

  // Ends a delegation that was recalled and not returned: its state id then fails with EXPIRED.
  void RevokeDelegation(const Delegation& delegation);
  // Ends what clients with an expired lease hold of the file of a delegation that is recalled.
  void RevokeExpired(const Delegation& delegation);

  // Checks I/O that the open of `state_id` (zero: none) does not allow: DENIED if a share
  // reservation of another open forbids it and that client's lease has not expired.
  wire::DafsStatus CheckDenied(const ObjectKey& key, uint32_t access,
                               const wire::StateId& state_id);
  // Releases all opens and locks of clients that have `key` open and whose lease has expired.
  // Returns whether there was such a client.
  bool RevokeExpired(const ObjectKey& key);

 private:
  void ReleaseLocks(const wire::ClientId& client_id, const ObjectKey& key, const Closed& closed);
  // Closes every open of a client. Those in exports that may hang, except `here`, are closed on the
  // threads of these, perhaps later.
  void ReleaseExcept(const wire::ClientId& client_id, std::optional<size_t> here);
  void ReleaseInExport(const wire::ClientId& client_id, size_t export_index);

  StoreParts& store_;
  absl::Mutex mutex_;
  // Releases that threads of an export were given and have not ended, so that retries do not queue
  // more.
  absl::flat_hash_set<std::pair<wire::ClientId, size_t>> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::server
