// The local store of `dafsd`: exported directories as DAFS objects. It contains the filehandles,
// the callers' identities, the open files with their share reservations, and every procedure on
// names, attributes and data. It does not depend on the network, sessions or chains: its caller
// decodes the request, fills in the current filehandle and state id, and encodes the result.
// A class for each group of procedures; here is what composes them.
// Spec: draft 4.1.4, 4.4.1.2, 4.4.2, 6.5.2 .. 6.5.39; WIRE 5, 9, 10; docs/decisions.md, Server.
//
// Thread-safe. Every call may block on the file system, except DataProcedures::Read with
// ReadMode::kNoWait.
//
// Identity: a call leaves its thread with the file system identity (fsuid, fsgid, groups) and the
// reduced capabilities of the caller, so that the next call for the same user need not switch. A
// thread calls RestoreServerIdentity() before it does other file work of its own. A new thread
// inherits the identity, so a program starts threads before their parent makes a call, or after it
// restored the identity. The program sets umask 0 and an RLIMIT_NOFILE high enough for what clients
// may hold open.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/access/exports/store_options.h"
#include "server/store/objects/export_set.h"
#include "server/store/objects/handle.h"
#include "server/store/parts/inventory.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class AttributeProcedures;
class DataProcedures;
class Delegations;
class ExportDirectories;
class ExportReload;
class ExportThreads;
class Fencing;
class ExportedCache;
class FencingProcedures;
class Grace;
class HolderValues;
class LockNotices;
class LockProcedures;
class NameProcedures;
class OpenDoubts;
class OpenProcedures;
class PersistentLocks;
class PromiseEnds;
class Promises;
class Releases;
class RestartCheck;
class Rollbacks;
class UndoLog;
class WriteVerifier;
struct StoreParts;

class Store {
 public:
  // Create and ExportDirectories::OpenAll, without a limit of time.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);

  // Reads the state directory. Fails if the process lacks the privileges that handles and
  // identities need (root). Errors: kInvalidArgument, kFailedPrecondition, kPermissionDenied,
  // kInternal.
  static absl::StatusOr<std::unique_ptr<Store>> Create(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Restores the identity and capabilities of the process on the calling thread.
  static void RestoreServerIdentity();

  // All that is returned below is valid as long as the store.

  // The procedures of the protocol.
  NameProcedures& names();
  AttributeProcedures& attributes();
  OpenProcedures& opens();
  LockProcedures& locks();
  DataProcedures& data();
  FencingProcedures& fencing_lists();

  // The exports: those now, their directories, their replacement, and the threads for those that
  // may hang.
  const ExportSet& exports() const;
  ExportDirectories& directories();
  ExportReload& reload();
  ExportThreads& export_threads();
  size_t export_count() const;  // at the start
  // The index of the export of objects with this FSHandle; nullopt if there is none, or if it is
  // not open yet.
  std::optional<size_t> ExportOf(const wire::FsHandle& fshandle) const;

  // State that clients hold, and its end.
  Delegations& delegations();
  HolderValues& holder_values();
  OpenDoubts& open_doubts();
  Promises& promises();
  Grace& grace();  // started before the first client is served, and polled regularly
  Releases& releases();
  LockNotices& lock_notices();
  PromiseEnds& promise_ends();
  Fencing& fencing();
  PersistentLocks& persistent_locks();
  UndoLog& undo_log();
  Rollbacks& rollbacks();
  Inventory inventory() const;  // for the administrator

  ExportedCache& exported();

  uint32_t instance() const;  // NextInstance of this start

  // After a restart.
  RestartCheck& restart_check();
  WriteVerifier& write_verifiers();  // of the files in all exports

  // The filehandle of the object with this key.
  wire::FileHandle HandleOf(const ObjectKey& key) const;

  // --- Housekeeping ----------------------------------------------------------------------------

  // Call regularly. After the period has ended, removes what no client reclaimed.
  void EndGrace(absl::Time now);

  // Ends the leases that protect delegations from local programs: no recall of these begins any
  // more (Delegations::SetRecaller). Call before what receives recalls ends.
  void EndLeases();

  // Releases the descriptors of objects that local programs have removed and no client has open, so
  // that the file system frees their space. Recalls the delegations of such files. Each call checks
  // one part of the objects; kForgetCalls calls check all. Call on a thread that may wait.
  static constexpr int kForgetCalls = 16;
  void ForgetRemoved();

 private:
  struct Groups;

  explicit Store(std::unique_ptr<StoreParts> parts);

  std::unique_ptr<StoreParts> parts_;
  std::unique_ptr<Groups> groups_;
};

}  // namespace dafs::server
