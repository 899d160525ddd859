#include "server/store/store.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/attribute_procedures.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/procedures/fencing_procedures.h"
#include "server/store/procedures/lock_procedures.h"
#include "server/store/procedures/name_procedures.h"
#include "server/store/procedures/open_procedures.h"
#include "server/store/procedures/shared/restart_check.h"
#include "server/store/system/identity.h"
#include "server/store/system/state_dir.h"

namespace dafs::server {

struct Store::Groups {
  explicit Groups(StoreParts& parts)
      : names(parts),
        attributes(parts),
        opens(parts),
        locks(parts),
        data(parts),
        fencing(parts),
        restart_check(parts) {}

  NameProcedures names;
  AttributeProcedures attributes;
  OpenProcedures opens;
  LockProcedures locks;
  DataProcedures data;
  FencingProcedures fencing;
  RestartCheck restart_check;
};

absl::StatusOr<std::unique_ptr<Store>> Store::Open(StoreOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Create(std::move(options)));
  RETURN_IF_ERROR(store->directories().OpenAll([](size_t) {}, absl::InfiniteDuration()));
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::Create(StoreOptions options) {
  RETURN_IF_ERROR(CheckExports(options.exports));
  if (options.max_append < 65536) {
    return absl::InvalidArgumentError("max_append must be at least 65536 (spec 6.1.6)");
  }
  RestoreOwnIdentity();
  if (!HasNeededCapabilities()) {
    return absl::PermissionDeniedError(
        "opening files by handle and acting as the caller need privileges: run dafsd as root");
  }
  struct stat st;
  if (stat(options.state_dir.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", options.state_dir, ": ",
                     errno != 0 ? std::strerror(errno) : "not a directory"));
  }
  const bool has_served = HasServed(options.state_dir);
  ASSIGN_OR_RETURN(const HandleKey key, LoadOrCreateHandleKey(options.state_dir));
  ASSIGN_OR_RETURN(const uint32_t instance, NextInstance(options.state_dir, key, has_served));
  ASSIGN_OR_RETURN(std::unique_ptr<WriteVerifier> verifier,
                   WriteVerifier::Open(options.state_dir, instance));
  auto parts = std::make_unique<StoreParts>(std::move(options), key, instance, std::move(verifier));
  RETURN_IF_ERROR(parts->fencing.Load());
  RETURN_IF_ERROR(parts->undo_log.Load());
  RETURN_IF_ERROR(parts->persistent_locks.Load());
  return std::unique_ptr<Store>(new Store(std::move(parts)));
}

Store::Store(std::unique_ptr<StoreParts> parts)
    : parts_(std::move(parts)), groups_(std::make_unique<Groups>(*parts_)) {}

Store::~Store() { RestoreOwnIdentity(); }

void Store::RestoreServerIdentity() { RestoreOwnIdentity(); }

NameProcedures& Store::names() { return groups_->names; }

AttributeProcedures& Store::attributes() { return groups_->attributes; }

OpenProcedures& Store::opens() { return groups_->opens; }

LockProcedures& Store::locks() { return groups_->locks; }

DataProcedures& Store::data() { return groups_->data; }

FencingProcedures& Store::fencing_lists() { return groups_->fencing; }

const ExportSet& Store::exports() const { return parts_->exports; }

ExportDirectories& Store::directories() { return parts_->directories; }

ExportReload& Store::reload() { return parts_->reload; }

ExportThreads& Store::export_threads() { return parts_->threads; }

size_t Store::export_count() const { return parts_->options.exports.size(); }

std::optional<size_t> Store::ExportOf(const wire::FsHandle& fshandle) const {
  return parts_->mounts->ExportOf(fshandle);
}

Delegations& Store::delegations() { return parts_->delegations; }

HolderValues& Store::holder_values() { return parts_->holder_values; }

OpenDoubts& Store::open_doubts() { return parts_->open_doubts; }

Promises& Store::promises() { return parts_->promises; }

Grace& Store::grace() { return parts_->grace; }

Releases& Store::releases() { return parts_->releases; }

LockNotices& Store::lock_notices() { return parts_->lock_notices; }

PromiseEnds& Store::promise_ends() { return parts_->promise_ends; }

Fencing& Store::fencing() { return parts_->fencing; }

PersistentLocks& Store::persistent_locks() { return parts_->persistent_locks; }

UndoLog& Store::undo_log() { return parts_->undo_log; }

Rollbacks& Store::rollbacks() { return parts_->rollbacks; }

Inventory Store::inventory() const { return Inventory(*parts_); }

RestartCheck& Store::restart_check() { return groups_->restart_check; }

uint32_t Store::instance() const { return parts_->instance; }

WriteVerifier& Store::write_verifiers() { return *parts_->write_verifier; }

wire::FileHandle Store::HandleOf(const ObjectKey& key) const { return parts_->mac.Seal(key); }

void Store::EndGrace(absl::Time now) {
  parts_->delegation_claims.EndOverdue(now);
  const std::optional<Grace::Ending> ending = parts_->grace.Ended(now);
  if (!ending) return;
  std::vector<size_t> ended;
  for (size_t i = 0; i < parts_->exports.size(); ++i) {
    if (ending->In(i)) ended.push_back(i);
  }
  RestoreOwnIdentity();
  parts_->persistent_locks.EndClaims([&](const ObjectKey& file) {
    const std::optional<size_t> index = parts_->mounts->ExportOf(file.fshandle());
    return index && ending->In(*index);
  });
  parts_->kept_orphans.Sweep(ended);
}

ExportedCache& Store::exported() { return parts_->exported; }

void Store::EndLeases() {
  parts_->leases.Stop();
  parts_->exported.DropAll();
}

void Store::ForgetRemoved() {
  static_assert(kForgetCalls == DescriptorCache::kParts);
  RestoreOwnIdentity();
  parts_->ForgetRemoved();
}

}  // namespace dafs::server
