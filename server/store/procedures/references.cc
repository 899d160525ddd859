// GET_REFS: references to blocks of a file in the exported cache, which it fills from the page
// cache of the kernel. Spec: wire/messages/references.h; FAST03 companion (Optimistic DAFS).
#include "wire/messages/references.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "server/store/fencing/fence_list.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/system/errno_status.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Whether reads of the file need no check but the one at the open. A client that has a reference
// reads without a request, and can read every block of the export's cache.
bool MayBeExported(StoreParts& store, const Object& file) {
  const ObjectKey key = file.key();
  if (store.mounts->ExportThatMayHang(key.fshandle()).has_value()) return false;
  if (store.persistent_locks.MayConcern(key) || store.grace.active()) return false;
  return !store.fencing.any() ||
         (store.fencing.Get(FencedObject::File(key)).empty() &&
          store.fencing.Get(FencedObject::FileSystem(key.fshandle())).empty());
}

// Takes the lease by which the server learns of local programs that change the file (KernelLeases).
// False: there is none, because the file is open for writing, also by a client.
bool TakeLease(StoreParts& store, Object& file) {
  if (file.fs().layered || !store.descriptors.MayPinForDelegation()) return false;
  const ObjectKey key = file.key();
  absl::MutexLock opens(&store.object_locks.FileLock(key));
  if (store.leases.Has(key)) return true;
  int error = 0;
  std::shared_ptr<const UniqueFd> fd = file.DataFd(/*write=*/false, &error);
  return fd != nullptr && store.leases.Take(key, std::move(fd));
}

// The block of `file` at `filling`, read from `fd`. nullopt: it is not in memory, or it changes.
std::optional<ExportedCache::Reference> Fill(ExportedCache::Filling filling, const Object& file,
                                             int fd, uint64_t block) {
  const uint64_t offset = block * wire::kExportedBlock;
  const std::span<std::byte> into = filling.data();
  const iovec vec = {into.data(), into.size()};
  const ssize_t n =
      preadv2(fd, &vec, 1, static_cast<off_t>(offset), file.fs().memory ? 0 : RWF_NOWAIT);
  struct stat st;
  // A block at the end of the file is none: a read of it must report the end.
  if (n != static_cast<ssize_t>(into.size()) || fstat(fd, &st) != 0 ||
      static_cast<uint64_t>(st.st_size) <= offset + wire::kExportedBlock) {
    return std::nullopt;
  }
  return std::move(filling).Publish();
}

}  // namespace

DafsStatus DataProcedures::GetReferences(const Caller& caller, const wire::GetRefsArgs& args,
                                         size_t export_index, uint32_t most,
                                         std::vector<wire::BlockReference>* references) {
  if (IsOfAttributes(args.filehandle)) return DafsStatus::kNotSupp;
  if (args.offset % wire::kExportedBlock != 0 || args.offset > INT64_MAX || args.count == 0 ||
      args.count > wire::kReferencesMax) {
    return DafsStatus::kInval;
  }
  OpenData data;
  STORE_RETURN_IF_NOT_OK(
      FindData(store_, caller, args.filehandle, args.state_id, wire::kShareRead, &data));
  Object& file = *data.file;
  const ObjectKey key = file.key();
  if (!MayBeExported(store_, file)) return DafsStatus::kOk;
  const bool needs_lease = !file.fs().exported->only_clients_change;
  if (needs_lease && !TakeLease(store_, file)) return DafsStatus::kOk;
  const uint64_t first = args.offset / wire::kExportedBlock;
  for (uint64_t block = first; block < first + std::min(args.count, most); ++block) {
    auto found = store_.exported.Find(export_index, key, block);
    if (!found.has_value()) {
      auto filling = store_.exported.Begin(export_index, key, block);
      if (!filling.has_value()) break;
      // The end of the lease, from here on, keeps the block from being published.
      if (needs_lease && !store_.leases.Has(key)) break;
      found = Fill(*std::move(filling), file, data.fd->get(), block);
    }
    if (found.has_value()) references->push_back({block, found->position, found->version});
  }
  // A lock or fencing list that arrived meanwhile may have dropped the file's blocks too early.
  const bool still_leased = needs_lease || file.fs().exported->only_clients_change;
  if (!still_leased || !MayBeExported(store_, file)) {
    store_.exported.Drop(key);
    references->clear();
  }
  return DafsStatus::kOk;
}

}  // namespace dafs::server
