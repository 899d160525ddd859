// Asynchronous reads and writes between files and the memory of the application. Registered memory
// is transferred by RDMA. Spec: FAST03 4 (the DAFS API); 4.2, 6.5.27, 6.5.28, 6.5.38, 6.5.39.
//
// Ownership and threads:
//   - The application creates a loop (runtime/loop/loop.h) and the sessions on it, usually one. All
//     of that belongs to one thread; other threads have their own loops. There are no callbacks: a
//     completed I/O waits in its completion group (client/memory/completion_group.h) until it is
//     taken.
//   - Nothing happens between calls. Requests collect until the next turn of the loop, and are sent
//     together. CompletionGroup::Poll, CompletionGroup::Wait and every synchronous call turn the
//     loop.
//   - Read, Write and Cancel return at once. Wait blocks, and so do the synchronous calls of
//     client/library/library.h. Opening a session, or replacing a lost one, may block the thread
//     for as long as the transport needs to find its route.
//   - The library owns the memory of an I/O until the I/O has ended: until the reply arrives, or
//     until the connection on which the server could reach the memory is dead. That also holds
//     after Cancel, and after the timeout of a `soft` client. The library copies the two lists.
//   - The file, the group and the registration outlive the I/O.
//
// A lost connection or a restart of the server is not visible: outstanding requests are sent again
// on a new session, as in client/files/files.h. After a warm-up an I/O allocates nothing (coroutine
// frames and records are reused), except the list of buffers of a request with more than two
// segments. An I/O never registers memory. Where the server reaches memory by windows
// (client/memory/remote_access.h), each window is open for its request only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "client/library/io_file.h"
#include "client/memory/completion_group.h"
#include "client/memory/user_memory.h"
#include "client/state/records/identity.h"

namespace dafs::client {

class AsyncLanes;      // client/library/async_lanes.h
class AsyncRecord;     // client/library/async_record.h
class ReferenceReads;  // client/library/reference_reads.h
struct AsyncShared;    // client/library/async_record.h

class AsyncIo {
 public:
  // Per I/O; also the limit on its file ranges.
  static constexpr size_t kMostSegments = kMostIoSegments;
  static constexpr uint32_t kDefaultMostOut = 256;

  // For I/O on `files` on behalf of `user`; both outlive it. `most_out`: the largest number of I/Os
  // that are outstanding, or ended and not collected.
  AsyncIo(Files& files, const Identity& user, uint32_t most_out = kDefaultMostOut);
  // Call after Files::Shutdown, or when no I/O is outstanding. Drops completions that were not
  // collected.
  ~AsyncIo();
  AsyncIo(const AsyncIo&) = delete;
  AsyncIo& operator=(const AsyncIo&) = delete;

  // Issues a read of the `from` ranges of `file` into the `into` segments, or a write. Both lists
  // have the same total length, but may be divided differently. The completion goes to `group`.
  // kResourceExhausted: `most_out` reached; kInvalidArgument: the lists are too long, or differ in
  // length; kNotFound, kOutOfRange, kPermissionDenied: from UserMemory::Check. After an error
  // nothing was issued.
  absl::StatusOr<IoId> Read(IoFile& file, std::span<const MemorySegment> into,
                            std::span<const FileRange> from, CompletionGroup& group,
                            const IoOptions& options = {});
  absl::StatusOr<IoId> Write(IoFile& file, std::span<const MemorySegment> from,
                             std::span<const FileRange> to, CompletionGroup& group,
                             const IoOptions& options = {});

  // Waits for this I/O and takes it out of its group. kNotFound: it was already collected.
  absl::StatusOr<IoCompletion> Wait(IoId id);

  // Requests the end of an I/O. A request that the server has received cannot be recalled; then the
  // I/O ends when its reply arrives. It ends with kCancelled unless all of it was executed.
  // kNotFound: it was already collected.
  absl::Status Cancel(IoId id);

  size_t outstanding() const;

  // Small reads are made by reference where that is possible. Borrowed; null: never.
  void ReadByReference(ReferenceReads* references);

 private:
  absl::StatusOr<IoId> Issue(bool write, IoFile& file, std::span<const MemorySegment> segments,
                             std::span<const FileRange> ranges, CompletionGroup& group,
                             const IoOptions& options);
  absl::Status Check(bool write, std::span<const MemorySegment> segments,
                     std::span<const FileRange> ranges) const;
  AsyncRecord* Find(IoId id);

  Files& files_;
  std::unique_ptr<AsyncShared> shared_;
  std::unique_ptr<AsyncLanes> lanes_;
  std::vector<std::unique_ptr<AsyncRecord>> records_;
};

}  // namespace dafs::client
