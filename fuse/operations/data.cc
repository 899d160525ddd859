// Data: READ, WRITE, FLUSH, FSYNC. Spec: 6.5.3, 6.5.4, 6.5.8, 6.5.27, 6.5.28, 6.5.38, 6.5.39.
// Data is not copied here, except in ReadRest. A READ is answered from the buffer that the server
// wrote into. A WRITE is read from the kernel into the buffer that the server reads from. Copies
// are made elsewhere: of small writes (fuse/files/write_streams.h) and with io_uring (ring.h).
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "fuse/kernel/attributes.h"
#include "fuse/operations/operations.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
// For the rare READ that returned less than requested before the end of the file. `data` holds the
// bytes read so far. Reads the rest into the same buffer, and appends it to `data`.
dat::Task<absl::Status> Operations::ReadRest(const OpenState& open, uint64_t offset,
                                             client::BufferLease& lease, uint32_t size, bool quiet,
                                             std::string& data) {
  while (data.size() < size) {
    auto wanted = static_cast<uint32_t>(size - data.size());
    absl::StatusOr<client::ReadResult> more = co_await files_.Read(
        *open.opener, open.handle, open.state_id, offset + data.size(), lease, wanted, quiet);
    if (!more.ok()) co_return more.status();
    data.append(reinterpret_cast<const char*>(lease.payload()), more->count);
    if (more->eof || more->count == 0) break;
  }
  co_return absl::OkStatus();
}

dat::Task<void> Operations::Read(Call& call) {
  RequestReader in = call.reader();
  auto read = in.Take<fuse_read_in>();
  if (!in.ok() || read.size > state_.options.rsize) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  std::shared_ptr<OpenState> open = state_.open_files.Find(read.fh);
  if (open == nullptr) {
    call.ReplyErrno(EBADF);
    co_return;
  }
  state_.inodes.DropFresh(open->nodeid);  // atime
  client::BufferPool& pool = files_.buffers();
  client::BufferLease lease = pool.TryAcquire(client::BufferUse::kReadTarget, read.size);
  if (!lease) {
    absl::StatusOr<client::BufferLease> waited =
        co_await pool.Acquire(client::BufferUse::kReadTarget, read.size);
    if (!waited.ok()) {
      call.ReplyStatus(waited.status());
      co_return;
    }
    lease = *std::move(waited);
  }
  const bool quiet = (read.flags & O_NOATIME) != 0;  // may have been set with fcntl(2)
  absl::StatusOr<client::ReadResult> result = co_await files_.Read(
      *open->opener, open->handle, open->state_id, read.offset, lease, read.size, quiet);
  if (!result.ok()) {
    call.ReplyStatus(result.status());
    co_return;
  }
  std::span<const std::byte> got(lease.payload(), result->count);
  if (result->count == read.size || result->eof || result->count == 0) {
    call.Reply({got});
    co_return;
  }
  std::string data(reinterpret_cast<const char*>(got.data()), got.size());
  absl::Status rest = co_await ReadRest(*open, read.offset, lease, read.size, quiet, data);
  if (rest.ok()) {
    call.Reply({std::as_bytes(std::span(data))});
  } else {
    call.ReplyStatus(rest);
  }
}

dat::Task<void> Operations::WriteData(const OpenState& open, const client::BufferLease& lease,
                                      Transfer& transfer) {
  while (transfer.done < transfer.size) {
    absl::StatusOr<client::WriteResult> result = co_await files_.Write(
        *open.opener, open.handle, open.state_id, transfer.offset + transfer.done, lease,
        transfer.done, transfer.size - transfer.done, transfer.stability,
        transfer.wants_after ? &transfer.after : nullptr);
    if (result.ok() && result->count == 0) {
      transfer.failed = absl::InternalError("write: nothing taken");
    }
    if (!result.ok()) transfer.failed = result.status();
    if (!transfer.failed.ok()) co_return;
    open.writes->NoteWrite(*result);
    transfer.done += result->count;
  }
}

// The kernel's offset is its idea of the end of the file, which only the server knows. The kernel
// requests the size again after every write, so the offset of the data is not returned.
dat::Task<void> Operations::AppendData(const OpenState& open, const client::BufferLease& lease,
                                       Transfer& transfer) {
  // An append is at least DATA_SYNC; the server's reply says whether it is committed.
  const wire::StableHow stability = transfer.stability == wire::StableHow::kUnstable
                                        ? wire::StableHow::kDataSync
                                        : wire::StableHow::kFileSync;
  while (transfer.done < transfer.size) {
    const uint32_t part = std::min(transfer.size - transfer.done, files_.append_bytes());
    absl::StatusOr<client::AppendResult> result = co_await files_.Append(
        *open.opener, open.handle, open.state_id, lease, transfer.done, part, stability);
    // The server's limit is lower than assumed; append_bytes() has changed.
    if (wire::DafsFromStatus(result.status()) == wire::DafsStatus::kWriteTooBig &&
        part > files_.append_bytes()) {
      continue;
    }
    if (!result.ok()) {
      transfer.failed = result.status();
      co_return;
    }
    client::WriteResult written;
    written.count = part;
    written.committed = result->committed;
    written.verifier = result->verifier;
    open.writes->NoteWrite(written);
    transfer.done += part;
  }
}

// Sends a piece to the server, and records the result in the inode table and the commit queue.
dat::Task<Operations::Transfer> Operations::Carry(WritePiece& piece, wire::StableHow stability,
                                                  bool appends, bool may_ask) {
  Transfer transfer;
  transfer.offset = piece.offset;
  transfer.size = piece.size;
  transfer.stability = stability;
  if (appends) {
    co_await AppendData(*piece.open, piece.lease, transfer);
  } else {
    piece.lease.Seal();
    const bool may_keep = state_.options.cache.reg_min > absl::ZeroDuration();
    transfer.wants_after = may_ask && may_keep && stat_habit_.Expected();
    if (transfer.wants_after) stat_habit_.Paid();
    co_await WriteData(*piece.open, piece.lease, transfer);
  }
  EndWrite(piece, std::move(transfer.after));
  commits_.Add(piece.open, transfer.done);
  co_return transfer;
}

// write(2) returns the number of bytes written. For pages of a mapping the kernel accepts only an
// error, not a count, and reports it by the next fsync, msync or close.
void Operations::ReplyTransfer(Call& call, const Transfer& transfer, bool from_cache) {
  if (!transfer.failed.ok() && (from_cache || transfer.done == 0)) {
    call.ReplyStatus(transfer.failed);
  } else {
    ReplyWritten(call, transfer.done);
  }
}

dat::Task<void> Operations::Write(Call& call) {
  RequestReader in = call.reader();
  auto write = in.Take<fuse_write_in>();
  uint32_t size = call.header().len - static_cast<uint32_t>(kWriteHeaderBytes);
  if (!in.ok() || write.size != size || !call.lease()) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  std::shared_ptr<OpenState> open = state_.open_files.Find(write.fh);
  if (open == nullptr) {
    call.ReplyErrno(EBADF);
    co_return;
  }
  if (GoesBehind(write, *open)) {
    co_await WriteBehind(call, open, write.offset, size);
    co_return;
  }
  co_await Settled(open->nodeid);
  if (call.answered()) co_return;  // its caller was killed while it waited
  WritePiece piece;
  piece.open = open;
  piece.offset = write.offset;
  piece.size = size;
  piece.lease = std::move(call.lease());
  piece.change = BeginWrite(open->nodeid);
  // Pages of a mapping have fixed offsets, even if the descriptor was opened to append.
  const bool from_cache = (write.write_flags & FUSE_WRITE_CACHE) != 0;
  const bool appends = (write.flags & O_APPEND) != 0 && !from_cache;
  dat::Task<Transfer> carrying =
      Carry(piece, StabilityFromFlags(write.flags), appends, /*may_ask=*/!from_cache);
  ReplyTransfer(call, co_await carrying, from_cache);
}

// If uncommitted data of the file was lost, records the error for all that have the file open.
void Operations::NoteGivenUp(const OpenState& open) {
  const absl::Status why = files_.TakeFailure(open.handle);
  if (!why.ok()) open.writes->NoteFailure(why);
}

// close(2) reports a known error, and the next fsync reports it again: the caller may be a child
// process whose exit closes a file that its parent still uses. The server has the data then, and
// keeps it if the server restarts. Only fsync guarantees that it survives a crash of the server's
// machine.
dat::Task<void> Operations::Flush(Call& call) {
  RequestReader in = call.reader();
  auto flush = in.Take<fuse_flush_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Find(flush.fh) : nullptr;
  if (open == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  // Afterwards errors of pending writes are known, and the locks can be released.
  co_await Settled(open->nodeid);
  absl::Status reported;
  // All writes of a file are tracked together. A close of a reader does not wait for them.
  if ((ShareOf(open->flags) & wire::kShareWrite) != 0) {
    if (state_.options.sync_on_close && open->writes->uncommitted()) {
      dat::Task<absl::Status> committing = commits_.CommitFile(open, /*can_wait=*/false);
      reported = co_await committing;
    }
    NoteGivenUp(*open);
    if (reported.ok()) reported = open->writes->ErrorForClose(open->errors);
  }
  // close(2) releases the record locks of its process on the file before it returns.
  LockOwners::Ended ended = state_.lock_owners.End(open->nodeid, flush.lock_owner);
  if (ended.owner != nullptr) {
    dat::Task<void> ending = EndOwner(ended);
    co_await ending;
  }
  call.ReplyStatus(reported);
}

dat::Task<void> Operations::Fsync(Call& call) {
  RequestReader in = call.reader();
  auto fsync = in.Take<fuse_fsync_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Find(fsync.fh) : nullptr;
  if (open == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  // Also if this mount has no uncommitted data of the file: another client may have written it.
  dat::Task<absl::Status> committing = commits_.CommitFile(open, /*can_wait=*/false);
  absl::Status status = co_await committing;
  if (status.ok()) status = open->writes->ErrorForFsync(open->errors);
  call.ReplyStatus(status);
}

}  // namespace dafs::fuse
