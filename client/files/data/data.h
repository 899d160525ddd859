// Reads, writes and appends data.
// Spec: 4.2, 6.5.3, 6.5.4, 6.5.6, 6.5.27, 6.5.28, 6.5.38, 6.5.39; WIRE 10.
// Threads and blocking: client/files/files.h.
//
// TransferPolicy decides how each request carries its data. Data that the server answers as
// unstable is kept for a rewrite until a COMMIT (client/state/data/uncommitted.h).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/memory/buffer_pool.h"
#include "client/recovery/calls/data_parts.h"
#include "client/recovery/calls/data_target.h"
#include "client/state/data/data_results.h"
#include "client/state/node.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"
#include "wire/protocol/types.h"

namespace dafs::client {

template <class Part>
class ReadDirectCallOf;

class DataOperations : public OperationGroup {
 public:
  explicit DataOperations(const OperationContext& context) : OperationGroup(context) {}

  // Reads up to `size` bytes from byte `offset` to the start of the payload of `into`. Returns the
  // number of bytes placed, 0..size, and whether the end was reached; short only at the end. Uses
  // READ_DIRECT, or READ_INLINE for small reads, and parallel pieces beyond the server's largest
  // read. `into` holds at least `size` and stays leased until this returns. `quiet`: does not
  // update the access time, if the server supports that.
  Task<absl::StatusOr<ReadResult>> Read(const Identity& user, const wire::FileHandle& file,
                                        const wire::StateId& state_id, uint64_t offset,
                                        BufferLease& into, uint32_t size, bool quiet = false);
  // Writes `size` bytes that start `position` bytes into the payload of `from`. `after` (may be
  // null): the file's attributes after the write, fetched in the same chain. They are valid only if
  // the write is small and is sent in one piece.
  Task<absl::StatusOr<WriteResult>> Write(const Identity& user, const wire::FileHandle& file,
                                          const wire::StateId& state_id, uint64_t offset,
                                          const BufferLease& from, uint32_t position, uint32_t size,
                                          wire::StableHow stability, Attributes* after = nullptr);
  // The same for client/library/async_io.h, with memory of the application or of a lease: at most
  // read_bytes() or write_bytes() in one call. Unregistered memory is transferred inline, whatever
  // its size.
  Task<absl::StatusOr<ReadResult>> Read(const DataTarget& from, const UserPart& into);
  Task<absl::StatusOr<WriteResult>> Write(const DataTarget& to, const UserPart& from);
  Task<absl::StatusOr<ReadResult>> Read(const DataTarget& from, const LeasePart& into);
  Task<absl::StatusOr<WriteResult>> Write(const DataTarget& to, const LeasePart& from);
  // At most append_bytes() in one call: an append is atomic and is never split. Not idempotent.
  // WRITE_TOOBIG: nothing was appended because `size` exceeds append_bytes(). This call may have
  // lowered that limit: it found that the server reads no data from here, or that the session has
  // smaller messages.
  Task<absl::StatusOr<AppendResult>> Append(const Identity& user, const wire::FileHandle& file,
                                            const wire::StateId& state_id, const BufferLease& from,
                                            uint32_t position, uint32_t size,
                                            wire::StableHow stability);
  // 6.5.6 CACHE_HINT: how the caller will use the file, and `count` bytes of it from `offset` on
  // (0: to the end). The server need not follow it.
  Task<absl::Status> CacheHint(const Identity& user, const wire::FileHandle& file, uint64_t offset,
                               uint32_t count, wire::AccessPattern pattern, uint32_t cache_hint);

 private:
  bool UseLock(wire::DafsStatus status, DataTarget& target, uint32_t size) const;
  // A Part is a LeasePart or a UserPart.
  template <class Part>
  bool IsDamaged(const ReadDirectCallOf<Part>& read, const Part& part) const;
  template <class Part>
  Task<absl::StatusOr<ReadResult>> ReadWhole(DataTarget target, Part whole);
  Task<absl::StatusOr<ReadResult>> ReadInPieces(DataTarget target, LeasePart whole);
  template <class Part>
  Task<absl::StatusOr<WriteResult>> WriteBracketed(DataTarget target, Part whole);
  template <class Part>
  Task<absl::StatusOr<WriteResult>> WriteWhole(DataTarget target, Part whole);
  Task<absl::StatusOr<WriteResult>> WriteParts(DataTarget target, LeasePart whole);
  Task<absl::StatusOr<WriteResult>> WriteParts(DataTarget target, UserPart whole);
  Task<absl::StatusOr<WriteResult>> WriteInPieces(DataTarget target, LeasePart whole);
  // False: the part is unstable, and is to be kept for a rewrite.
  bool SettleIfStable(const DataTarget& target, uint64_t offset, uint32_t count,
                      wire::StableHow committed);
  Task<bool> KeepPart(const DataTarget& target, uint64_t offset, LeasePart part,
                      wire::Verifier verifier);
  Task<bool> KeepPart(const DataTarget& target, uint64_t offset, UserPart part,
                      wire::Verifier verifier);
};

}  // namespace dafs::client
