#include "server/store/parts/store_parts.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "runtime/log/log.h"

namespace dafs::server {

namespace {

// Distinguishes the undo files of this server from those of others.
std::string TagOf(const HandleMac& mac) {
  const std::array<uint8_t, 8> id = mac.Identify("undo files");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(id.data()), id.size()));
}

}  // namespace

StoreParts::StoreParts(StoreOptions given, const HandleKey& key, uint32_t instance_number,
                       std::unique_ptr<WriteVerifier> verifier)
    : options(std::move(given)),
      instance(instance_number),
      mac(key),
      exports(options.exports),
      pseudo_tree(exports, mac),
      mounts(std::make_unique<Mounts>(exports, mac)),
      threads(*mounts, pseudo_tree),
      descriptors(options.max_descriptors, cache),
      cache(descriptors.most(), descriptors.of_locks()),
      write_verifier(std::move(verifier)),
      database(options.state_dir),
      fencing(database),
      object_locks(exports, *mounts),
      kept_orphans(options.state_dir, options.keep_orphans, exports, *mounts, threads),
      promises(options.promises),
      open_records(instance_number),
      opens(options.max_opens, promises, open_records),
      delegations(options.delegations, delegation_records),
      promise_ends(promises),
      announcements(promises, delegations, leases),
      exported(options.export_cache_bytes, options.exports.size(),
               [this](const ObjectKey& file) { EndLeaseOfExported(file); }),
      leases(
          [this](const ObjectKey& file) {
            announcements.RecallAll(file);
            EndLeaseOfExported(file);
          },
          [this](const ObjectKey& file) { exported.Drop(file); }),
      persistent_locks(database),
      undo_log(database, TagOf(mac), options.undo_space_bytes),
      lock_notices(locks, mac),
      objects({mac, cache, opens, *mounts, *write_verifier, announcements}),
      handles({mac, cache, *mounts, pseudo_tree, openings, fencing, objects}),
      object_attributes(objects, kept_orphans),
      lookups(*this),
      attributes(*this, instance_number),
      releases(*this),
      directories(*this),
      reload(*this),
      openings(options.exports.size()),
      rollbacks(*this) {
  mounts->OnFound([this](const FileSystem& fs) {
    kept_orphans.TakeUp(fs);
    undo_log.Tidy(fs);
  });
  persistent_locks.OnUndo([this] { rollbacks.Wake(); });
  grace.SetExportOf([this](const ObjectKey& file) { return mounts->ExportOf(file.fshandle()); });
  reload.StartLeasesIfNeeded();
}

void StoreParts::EndLeaseOfExported(const ObjectKey& file) {
  if (exported.on() && !delegations.Has(file)) leases.End(file);
}

void StoreParts::ForgetRemoved() {
  objects.ForgetRemoved();
  announcements.RecallRemoved();
  for (const ObjectKey& file : leases.Removed()) EndLeaseOfExported(file);
  for (const ObjectKey& file : persistent_locks.Files()) {
    if (!objects.IsGone(mac.Seal(file))) continue;
    LogNotice("the persistent locks of a file that was removed are forgotten");
    undo_log.Drop(file, mounts->FindByFileHandle(mac.Seal(file)));
    persistent_locks.Drop(file);
  }
}

}  // namespace dafs::server
