// Data is not copied here, except in ReadRest. A READ is answered from the buffer that the server
// wrote into. A WRITE is read from the kernel into the buffer that the server reads from. Copies
// are made elsewhere: of small writes (fuse/files/write_streams.h) and with io_uring (ring.h).
#include "fuse/operations/files/data.h"

#include <fcntl.h>

#include <cerrno>
#include <memory>

#include "fuse/files/commit_file.h"
#include "fuse/files/lock_owners.h"
#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

// For the rare READ that returned less than requested before the end of the file. `data` holds the
// bytes read so far. Reads the rest into the same buffer, and appends it to `data`.
Task<absl::Status> DataOperations::ReadRest(const OpenState& open, uint64_t offset,
                                            client::BufferLease& lease, uint32_t size, bool quiet,
                                            std::string& data) {
  while (data.size() < size) {
    auto wanted = static_cast<uint32_t>(size - data.size());
    absl::StatusOr<client::ReadResult> more = co_await files_.Of(*open.opener)
                                                  .data()
                                                  .Read(*open.opener, open.handle, open.state_id,
                                                        offset + data.size(), lease, wanted, quiet);
    if (!more.ok()) co_return more.status();
    data.append(reinterpret_cast<const char*>(lease.payload()), more->count);
    if (more->eof || more->count == 0) break;
  }
  co_return absl::OkStatus();
}

Task<void> DataOperations::Read(Call& call) {
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
  state_.caches.attributes.InvalidatePrefetched(open->nodeid);  // atime
  absl::StatusOr<client::BufferLease> lease =
      co_await files_.Of(*open->opener)
          .buffers()
          .Acquire(client::BufferUse::kReadTarget, read.size);
  if (!lease.ok()) {
    call.ReplyStatus(lease.status());
    co_return;
  }
  const bool quiet = (read.flags & O_NOATIME) != 0;  // may have been set with fcntl(2)
  absl::StatusOr<client::ReadResult> result =
      co_await files_.Of(*open->opener)
          .data()
          .Read(*open->opener, open->handle, open->state_id, read.offset, *lease, read.size, quiet);
  if (!result.ok()) {
    call.ReplyStatus(result.status());
    co_return;
  }
  std::span<const std::byte> got(lease->payload(), result->count);
  if (result->count == read.size || result->eof || result->count == 0) {
    call.Reply({got});
    co_return;
  }
  std::string data(reinterpret_cast<const char*>(got.data()), got.size());
  absl::Status rest = co_await ReadRest(*open, read.offset, *lease, read.size, quiet, data);
  if (rest.ok()) {
    call.Reply({std::as_bytes(std::span(data))});
  } else {
    call.ReplyStatus(rest);
  }
}

// close(2) reports a known error, and the next fsync reports it again: the caller may be a child
// process whose exit closes a file that its parent still uses. The server has the data then, and
// keeps it if the server restarts. Only fsync guarantees that it survives a crash of the server's
// machine.
Task<void> DataOperations::Flush(Call& call) {
  RequestReader in = call.reader();
  auto flush = in.Take<fuse_flush_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Find(flush.fh) : nullptr;
  if (open == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  // Afterwards errors of pending writes are known, and the locks can be released.
  co_await context_.pending.Drained(open->nodeid);
  absl::Status reported;
  // All writes of a file are tracked together. A close of a reader does not wait for them.
  if ((ShareOf(open->flags) & wire::kShareWrite) != 0) {
    if (state_.options.sync_on_close &&
        files_.Of(*open->opener).commits().NeedsCommit(open->handle)) {
      Task<absl::Status> committing = CommitFile(files_, open);
      reported = co_await committing;
    }
    NoteLostData(files_, *open).IgnoreError();  // ErrorForClose returns it
    if (reported.ok()) reported = open->writes->ErrorForClose(open->errors);
  }
  // close(2) releases the record locks of its process on the file before it returns.
  LockOwners::Ended ended = state_.lock_owners.End(open->nodeid, flush.lock_owner);
  if (ended.owner != nullptr) {
    Task<void> ending = context_.lock_owners.End(ended);
    co_await ending;
  }
  call.ReplyStatus(reported);
}

Task<void> DataOperations::Fsync(Call& call) {
  RequestReader in = call.reader();
  auto fsync = in.Take<fuse_fsync_in>();
  std::shared_ptr<OpenState> open = in.ok() ? state_.open_files.Find(fsync.fh) : nullptr;
  if (open == nullptr) {
    call.ReplyErrno(in.ok() ? EBADF : EINVAL);
    co_return;
  }
  // Also if this mount has no uncommitted data of the file: another client may have written it.
  Task<absl::Status> committing = CommitFile(files_, open);
  absl::Status status = co_await committing;
  if (status.ok()) status = open->writes->ErrorForFsync(open->errors);
  call.ReplyStatus(status);
}

}  // namespace dafs::fuse
