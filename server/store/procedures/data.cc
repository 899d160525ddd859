// Moving data: READ, WRITE, APPEND, COMMIT.
// Spec: 6.5.27, 6.5.28, 6.5.38, 6.5.39, 6.5.3, 6.5.4, 6.5.8.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "runtime/files/unique_fd.h"
#include "server/store/access/act_as.h"
#include "server/store/access/locks/reads_under_way.h"
#include "server/store/parts/store_parts.h"
#include "server/store/procedures/data_procedures.h"
#include "server/store/procedures/shared/data_access.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"
#include "wire/messages/read_write.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

using Iovecs = absl::InlinedVector<iovec, 16>;

// The first `limit` bytes of `from`, at most as many buffers as one system call accepts. *total is
// the number of bytes.
Iovecs Clip(std::span<const iovec> from, uint64_t limit, uint64_t* total) {
  Iovecs result;
  *total = 0;
  for (const iovec& v : from) {
    if (*total == limit || result.size() == IOV_MAX) break;
    const size_t length = std::min<uint64_t>(v.iov_len, limit - *total);
    if (length > 0) result.push_back({v.iov_base, length});
    *total += length;
  }
  return result;
}

uint64_t TotalBytes(std::span<const iovec> from) {
  uint64_t total = 0;
  for (const iovec& v : from) total += v.iov_len;
  return total;
}

// Removes the first `n` bytes.
void Advance(Iovecs* vecs, size_t n) {
  while (n > 0 && !vecs->empty()) {
    iovec& front = vecs->front();
    const size_t step = std::min(n, front.iov_len);
    front.iov_base = static_cast<char*>(front.iov_base) + step;
    front.iov_len -= step;
    n -= step;
    if (front.iov_len == 0) vecs->erase(vecs->begin());
  }
}

int SyncFlag(wire::StableHow how) {
  switch (how) {
    case wire::StableHow::kDataSync:
      return RWF_DSYNC;
    case wire::StableHow::kFileSync:
      return RWF_SYNC;
    default:
      return 0;
  }
}

// A failed synchronous write may also have lost data that was written before. The kernel reports
// such a loss only once, possibly as ENOSPC (a thin device) or EDQUOT. These errors look the same
// if only this data lacks space.
void NoteFailedSync(StoreParts& store, int flags, int error) {
  if (flags != 0 && (error == EIO || error == ENOSPC || error == EDQUOT)) {
    store.write_verifier->Change();
  }
}

bool SizeOf(int fd, uint64_t* size) {
  struct stat st;
  if (fstat(fd, &st) != 0) return false;
  *size = static_cast<uint64_t>(st.st_size);
  return true;
}

}  // namespace

ReadResult DataProcedures::Readv(const Caller& caller, const wire::FileHandle& filehandle,
                                 const wire::StateId& state_id, uint64_t offset,
                                 std::span<const iovec> into, ReadMode mode) {
  ReadResult result;
  if (IsOfAttributes(filehandle)) {
    return store_.attributes.Readv(caller, filehandle, state_id, offset, into);
  }
  OpenData data;
  result.status = FindData(store_, caller, filehandle, state_id, wire::kShareRead, &data);
  if (result.status != DafsStatus::kOk) return result;
  const int fd = data.fd->get();
  // No file extends beyond INT64_MAX, and the kernel accepts no larger offset.
  const uint64_t room = offset <= INT64_MAX ? INT64_MAX - offset : 0;
  uint64_t wanted = 0;
  const Iovecs vecs = Clip(into, std::min<uint64_t>(store_.options.max_read, room), &wanted);
  uint64_t size = 0;
  ssize_t n = 0;
  if (wanted > 0) {
    const ObjectKey key = data.file->key();
    const ReadUnderWay read(key);
    result.status = CheckLocked(store_.persistent_locks, caller, !state_id.is_zero(), key,
                                {offset, wanted, /*write=*/false});
    if (result.status != DafsStatus::kOk) return result;
    const bool no_wait = mode == ReadMode::kNoWait && !data.file->fs().memory;
    n = preadv2(fd, vecs.data(), static_cast<int>(vecs.size()), static_cast<off_t>(offset),
                no_wait ? RWF_NOWAIT : 0);
    if (n < 0 && no_wait && (errno == EAGAIN || errno == EOPNOTSUPP)) {
      result.would_block = true;
      return result;
    }
    if (n < 0) {
      result.status = StatusFromErrno();
      return result;
    }
  }
  // The size is read after the data. Then a short read means the end of the file, or data that is
  // not in the page cache.
  if (!SizeOf(fd, &size)) {
    result.status = StatusFromErrno();
    return result;
  }
  const uint64_t end = offset + static_cast<uint64_t>(n);
  result.bytes_read = static_cast<uint32_t>(n);
  result.eof = end >= size || end < offset;
  if (mode == ReadMode::kNoWait && !result.eof && static_cast<uint64_t>(n) < wanted) {
    result.would_block = true;
  } else if (store_.options.counts_use) {
    store_.opens.CountUse(state_id, result.bytes_read, 0);
  }
  return result;
}

ReadResult DataProcedures::Read(const Caller& caller, const wire::FileHandle& filehandle,
                                const wire::StateId& state_id, uint64_t offset,
                                std::span<std::byte> into, ReadMode mode) {
  const iovec one = {into.data(), into.size()};
  return Readv(caller, filehandle, state_id, offset, {&one, 1}, mode);
}

namespace {

// Records the intent of a WRITE or APPEND. After a restart, other clients cannot access the file
// until the writer has requested the outcome (grace.h).
void BeginData(const Caller& caller, const Object& file, wire::StableHow stable_how,
               const wire::Verifier& verifier, uint64_t size = 0, uint64_t length = 0) {
  Operation* operation = caller.operation;
  if (operation == nullptr) return;
  Intent& intent = operation->Prepare();
  intent.object = file.handle();
  intent.stable_how = static_cast<uint32_t>(stable_how);
  intent.verifier = verifier;
  intent.size = size;
  intent.length = length;
  operation->Begin();
}

}  // namespace

DafsStatus DataProcedures::Write(const Caller& caller, const wire::FileHandle& filehandle,
                                 const wire::StateId& state_id, uint64_t offset,
                                 std::span<const iovec> from, wire::StableHow stable_how,
                                 WriteResult* res) {
  if (IsOfAttributes(filehandle)) {
    return store_.attributes.Write(caller, filehandle, state_id, offset, from, stable_how, res);
  }
  if (TotalBytes(from) > store_.options.max_write) return DafsStatus::kWriteTooBig;
  OpenData data;
  STORE_RETURN_IF_NOT_OK(FindData(store_, caller, filehandle, state_id, wire::kShareWrite, &data));
  uint64_t total = 0;
  const Iovecs vecs = Clip(from, UINT64_MAX, &total);
  if (offset > INT64_MAX || total > INT64_MAX - offset) return DafsStatus::kFbig;
  // Read before the write, so that a loss during the write shows.
  res->verifier = store_.write_verifier->Of(data.file->fs());
  res->committed = stable_how;
  res->count = 0;
  if (total == 0) return DafsStatus::kOk;
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *data.file->fs().exported));
  const int flags = SyncFlag(stable_how);
  absl::ReaderMutexLock lock(&store_.object_locks.AppendLock(data.file->key()));
  STORE_RETURN_IF_NOT_OK(CheckLocked(store_.persistent_locks, caller, !state_id.is_zero(),
                                     data.file->key(), {offset, total, /*write=*/true}));
  const FileChange change(store_.exported, data.file->key(), {offset, offset + total});
  STORE_RETURN_IF_NOT_OK(SaveOld(store_, caller, *data.file, change));
  BeginData(caller, *data.file, stable_how, res->verifier);
  const ssize_t n = pwritev2(data.fd->get(), vecs.data(), static_cast<int>(vecs.size()),
                             static_cast<off_t>(offset), flags);
  const int error = n < 0 ? errno : 0;
  data.file->change().Modified();
  if (n < 0) NoteFailedSync(store_, flags, error);
  res->count = n < 0 ? 0 : static_cast<uint32_t>(n);
  if (store_.options.counts_use) store_.opens.CountUse(state_id, 0, res->count);
  const DafsStatus status = n < 0 ? StatusFromErrno(error) : DafsStatus::kOk;
  if (Operation* operation = caller.operation) {
    operation->result().length = res->count;
    operation->Done(status, std::span<const int>());
  }
  return status;
}

namespace {

// Writes all of `vecs` at the end of the file `fd`. Its position is not moved by other calls
// meanwhile. *start is the offset of the data. On failure, restores the old size unless another
// writer has extended the file. Returns 0 or an errno.
int AppendAll(int fd, Iovecs vecs, int flags, uint64_t* start) {
  uint64_t done = 0;
  int error = 0;
  while (!vecs.empty() && error == 0) {
    // With offset -1 the kernel leaves the descriptor's position after the data. It shows where the
    // data was written.
    const ssize_t n =
        pwritev2(fd, vecs.data(), static_cast<int>(vecs.size()), -1, flags | RWF_APPEND);
    if (n <= 0) {
      error = n < 0 ? errno : EIO;
      break;
    }
    const off_t end = lseek(fd, 0, SEEK_CUR);
    if (end < n) return EIO;
    const uint64_t begin = static_cast<uint64_t>(end - n);
    if (done == 0) *start = begin;
    if (begin != *start + done) error = EIO;  // another writer appended between two parts
    done += static_cast<uint64_t>(n);
    Advance(&vecs, static_cast<size_t>(n));
  }
  uint64_t size = 0;
  if (error != 0 && done > 0 && SizeOf(fd, &size) && size == *start + done) {
    if (ftruncate(fd, static_cast<off_t>(*start)) != 0) return EIO;
  }
  return error;
}

// In the page cache an append survives a crash of the process, but not of the machine.
bool AppendIsCached(const StoreOptions& options, wire::StableHow stable_how) {
  return options.stable == Stable::kProcess && stable_how == wire::StableHow::kDataSync;
}

}  // namespace

bool DataProcedures::AppendMayWait(const wire::FileHandle& filehandle,
                                   wire::StableHow stable_how) const {
  return (!AppendIsCached(store_.options, stable_how) && CommitMayWait(filehandle)) ||
         store_.persistent_locks.MayConcern(KeyOf(filehandle));  // SaveOld
}

bool DataProcedures::WriteMayWait(const Caller& caller, const wire::FileHandle& filehandle,
                                  uint64_t offset, uint64_t length) const {
  return offset <= INT64_MAX && length <= INT64_MAX - offset &&
         MustSaveBefore(store_.undo_saves, caller, KeyOf(filehandle), {offset, offset + length});
}

DafsStatus DataProcedures::Append(const Caller& caller, const wire::FileHandle& filehandle,
                                  const wire::StateId& state_id, std::span<const iovec> from,
                                  wire::StableHow stable_how, AppendResult* res) {
  if (stable_how == wire::StableHow::kUnstable) return DafsStatus::kInval;
  const uint64_t total = TotalBytes(from);
  if (total > store_.options.max_append) return DafsStatus::kWriteTooBig;
  OpenData data;
  STORE_RETURN_IF_NOT_OK(
      FindData(store_, caller, filehandle, state_id, wire::kShareWrite, &data, WriteUse::kAppends));
  STORE_RETURN_IF_NOT_OK(ActAs(caller, *data.file->fs().exported));
  res->verifier = store_.write_verifier->Of(data.file->fs());
  res->committed = stable_how;
  Iovecs vecs;
  for (const iovec& v : from) {
    if (v.iov_len > 0) vecs.push_back(v);
  }
  if (vecs.size() > IOV_MAX) return DafsStatus::kWriteTooBig;
  const int flags = AppendIsCached(store_.options, stable_how) ? 0 : SyncFlag(stable_how);
  const int fd = data.fd->get();
  absl::MutexLock lock(&store_.object_locks.AppendLock(data.file->key()));
  if (!SizeOf(fd, &res->offset)) return StatusFromErrno();
  STORE_RETURN_IF_NOT_OK(CheckLocked(store_.persistent_locks, caller, !state_id.is_zero(),
                                     data.file->key(), {res->offset, total, /*write=*/true}));
  const FileChange change(store_.exported, data.file->key(), {res->offset, res->offset + total});
  STORE_RETURN_IF_NOT_OK(SaveOld(store_, caller, *data.file, change));
  BeginData(caller, *data.file, stable_how, res->verifier, res->offset, total);
  const int error = AppendAll(fd, std::move(vecs), flags, &res->offset);
  if (total > 0) data.file->change().Modified();
  if (error != 0) NoteFailedSync(store_, flags, error);
  if (error == 0 && store_.options.counts_use) store_.opens.CountUse(state_id, 0, total);
  const DafsStatus status = error != 0 ? StatusFromErrno(error) : DafsStatus::kOk;
  if (Operation* operation = caller.operation) {
    operation->result().size = res->offset;
    operation->Done(status, std::span<const int>());
  }
  return status;
}

namespace {

// A descriptor to sync `file`: one that is open, or one for this call only. Keeping them would
// accumulate descriptors, because clients commit many files that are never opened again.
std::shared_ptr<const UniqueFd> SyncFd(Object& file, int* error) {
  if (file.HasDataFd(/*write=*/false)) return file.DataFd(/*write=*/false, error);
  ScopedPrivilege privilege;
  UniqueFd fd(open(FdPath(file.path_fd()).c_str(), OpenFlags(wire::kShareRead)));
  if (!fd.valid()) {
    *error = errno;
    return nullptr;
  }
  return std::make_shared<const UniqueFd>(std::move(fd));
}

}  // namespace

bool DataProcedures::CommitMayWait(const wire::FileHandle& filehandle) const {
  // A forged handle must not cause a search of the mount table.
  if (IsOfAttributes(filehandle) || !store_.objects.IsGenuine(filehandle)) return true;
  const FileSystem* fs = store_.mounts->FindByFileHandle(filehandle);
  return fs == nullptr || !fs->memory;
}

DafsStatus DataProcedures::Commit(const Caller& caller, const wire::CommitArgs& args,
                                  wire::CommitRes* res) {
  if (IsOfAttributes(args.filehandle)) return store_.attributes.Commit(caller, args, res);
  // Not fenced: it changes nothing that others can read, only makes lasting what was written
  // before.
  Place place;
  STORE_RETURN_IF_NOT_OK(store_.handles.ResolveUnfenced(caller, args.filehandle, &place));
  const ObjectRef& file = place.object;
  if (file == nullptr || file->is_dir()) return DafsStatus::kIsDir;
  if (!file->is_regular()) return DafsStatus::kInval;
  // A file in memory has no disk blocks: fsync(2) would do nothing.
  if (!file->fs().memory) {
    int error = 0;
    const std::shared_ptr<const UniqueFd> fd = SyncFd(*file, &error);
    if (fd == nullptr) return StatusFromErrno(error);
    // Syncs the whole file, whatever the range: the metadata must be flushed too (6.5.8-02).
    if (fsync(fd->get()) != 0) {
      error = errno;
      store_.write_verifier->Change();
      return StatusFromErrno(error);
    }
  }
  res->writeverf = store_.write_verifier->Of(file->fs());
  return DafsStatus::kOk;
}

}  // namespace dafs::server
