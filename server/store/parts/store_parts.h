// The parts of the store that its procedures share. Each part owns its state; a procedure takes the
// parts that it needs. Only for the store. Thread-safe as the Store is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "server/store/access/announcements.h"
#include "server/store/access/change_probe.h"
#include "server/store/access/exports/descriptor_budget.h"
#include "server/store/access/exports/export_threads.h"
#include "server/store/access/exports/kept_orphans.h"
#include "server/store/access/exports/openings.h"
#include "server/store/access/exports/pseudo_tree.h"
#include "server/store/access/exports/store_options.h"
#include "server/store/access/file_change.h"
#include "server/store/access/handle_resolver.h"
#include "server/store/access/known_objects.h"
#include "server/store/access/locks/lock_check.h"
#include "server/store/access/locks/lock_notices.h"
#include "server/store/access/locks/object_locks.h"
#include "server/store/access/locks/undo_save.h"
#include "server/store/access/object_attributes.h"
#include "server/store/access/promise_ends.h"
#include "server/store/access/return_if_not_ok.h"
#include "server/store/durable/database.h"
#include "server/store/durable/journal.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/fencing/fencing.h"
#include "server/store/holdings/delegations/admitted_clients.h"
#include "server/store/holdings/delegations/delegation_claims.h"
#include "server/store/holdings/delegations/delegation_records.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/delegations/holder_values.h"
#include "server/store/holdings/exported_cache.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/locks/kernel_leases.h"
#include "server/store/holdings/locks/lock_table.h"
#include "server/store/holdings/open_doubts.h"
#include "server/store/holdings/open_records.h"
#include "server/store/holdings/open_table.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/holdings/undo/undo_log.h"
#include "server/store/objects/descriptor_cache.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/mounts.h"
#include "server/store/parts/export_directories.h"
#include "server/store/parts/export_reload.h"
#include "server/store/parts/lookups.h"
#include "server/store/parts/named_attributes.h"
#include "server/store/parts/releases.h"
#include "server/store/parts/rollbacks.h"

namespace dafs::server {

struct StoreParts {
  StoreParts(StoreOptions options, const HandleKey& key, uint32_t instance,
             std::unique_ptr<WriteVerifier> verifier);
  StoreParts(const StoreParts&) = delete;
  StoreParts& operator=(const StoreParts&) = delete;

  // Removes what local programs have removed and no client has open, one part of it at each call.
  // Recalls the delegations of such files, and forgets their PERSIST locks.
  void ForgetRemoved();
  // Ends the lease of a file without delegations, and so the references to its blocks.
  void EndLeaseOfExported(const ObjectKey& file);

  const StoreOptions options;  // its exports are those of the start: see `exports`
  const uint32_t instance;
  const HandleMac mac;

  // Exports and their objects.
  ExportSet exports;
  PseudoTree pseudo_tree;
  const std::unique_ptr<Mounts> mounts;
  ExportThreads threads;
  DescriptorBudget descriptors;
  DescriptorCache cache;
  const std::unique_ptr<WriteVerifier> write_verifier;
  Database database;
  Fencing fencing;
  ObjectLocks object_locks;
  KeptOrphans kept_orphans;

  // State that clients hold.
  Promises promises;
  OpenRecords open_records;
  OpenTable opens;
  OpenDoubts open_doubts{open_records};
  DelegationRecords delegation_records;
  Delegations delegations;
  AdmittedClients admitted_clients{delegation_records};
  DelegationClaims delegation_claims{delegation_records};
  HolderValues holder_values{delegation_records};
  PromiseEnds promise_ends;
  Announcements announcements;  // before leases, whose thread uses it
  ExportedCache exported;       // before leases, whose thread uses it
  KernelLeases leases;
  LockTable locks;
  PersistentLocks persistent_locks;
  UndoLog undo_log;
  UndoSaves undo_saves{persistent_locks, undo_log};
  Grace grace;

  // The steps that begin or end most procedures.
  LockNotices lock_notices;
  KnownObjects objects;
  HandleResolver handles;
  ObjectAttributes object_attributes;
  Lookups lookups;
  NamedAttributes attributes;
  Releases releases;
  ExportDirectories directories;
  ExportReload reload;

  Openings openings;    // its threads use all of the above
  Rollbacks rollbacks;  // the same
};

}  // namespace dafs::server
