// The procedures on the data of files.
// Spec: 6.5.3, 6.5.4, 6.5.6, 6.5.8, 6.5.27, 6.5.28, 6.5.38, 6.5.39; wire/messages/ranges.h.
// Thread-safe; blocks on the file system, except Read with ReadMode::kNoWait. Leaves the thread
// with the identity of the caller (server/store/store.h).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/store/access/results.h"
#include "server/store/holdings/caller.h"
#include "wire/messages/references.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

struct StoreParts;

class DataProcedures {
 public:
  // Borrowed.
  explicit DataProcedures(StoreParts& store) : store_(store) {}

  // 6.5.27, 6.5.28. Reads up to `into.size()` bytes at `offset`. The result may be short without
  // eof.
  ReadResult Read(const Caller& caller, const wire::FileHandle& filehandle,
                  const wire::StateId& state_id, uint64_t offset, std::span<std::byte> into,
                  ReadMode mode);
  // The same into several buffers, in order.
  ReadResult Readv(const Caller& caller, const wire::FileHandle& filehandle,
                   const wire::StateId& state_id, uint64_t offset, std::span<const iovec> into,
                   ReadMode mode);

  // 6.5.38, 6.5.39. Writes the bytes of `from`, in order, at `offset`.
  wire::DafsStatus Write(const Caller& caller, const wire::FileHandle& filehandle,
                         const wire::StateId& state_id, uint64_t offset,
                         std::span<const iovec> from, wire::StableHow stable_how, WriteResult* res);

  // Whether a Write may wait for a disk even if it is unstable, because the old bytes are to be
  // saved first (server/store/access/locks/undo_save.h). One load while no lock needs that.
  bool WriteMayWait(const Caller& caller, const wire::FileHandle& filehandle, uint64_t offset,
                    uint64_t length) const;
  // Whether Append to this file may wait for a disk.
  bool AppendMayWait(const wire::FileHandle& filehandle, wire::StableHow stable_how) const;
  // 6.5.3, 6.5.4. Writes all of `from` at the end of the file, or nothing.
  wire::DafsStatus Append(const Caller& caller, const wire::FileHandle& filehandle,
                          const wire::StateId& state_id, std::span<const iovec> from,
                          wire::StableHow stable_how, AppendResult* res);

  // Whether Commit of this file may wait for a disk.
  bool CommitMayWait(const wire::FileHandle& filehandle) const;
  // 6.5.8.
  wire::DafsStatus Commit(const Caller& caller, const wire::CommitArgs& args, wire::CommitRes* res);

  // 6.5.6. Gives the kernel the advice that needs no waiting. *later, if set, is work that may wait
  // for the disk; it owns what it uses, and the caller runs it when there is time.
  // PREFETCH_NOT_SUPPORTED: not a regular file, so there is nothing to read ahead.
  wire::DafsStatus CacheHint(const Caller& caller, const wire::CacheHintArgs& args,
                             absl::AnyInvocable<void()>* later);

  // Private procedures 1005 to 1007, wire/messages/ranges.h. NOTSUPP also if the file system does
  // not support the operation. CopyRange may copy less than requested.
  wire::DafsStatus Allocate(const Caller& caller, const wire::AllocateArgs& args);
  wire::DafsStatus Seek(const Caller& caller, const wire::SeekArgs& args, wire::SeekRes* res);
  wire::DafsStatus CopyRange(const Caller& caller, const wire::CopyRangeArgs& args,
                             wire::CopyRangeRes* res);

  // GET_REFS (1041), wire/messages/references.h: at most `most` references into the cache of the
  // export `export_index`, which is that of the file. None if the file may not be read without a
  // request: it is open for writing while local programs may change it, or has a fencing list or a
  // mandatory lock.
  wire::DafsStatus GetReferences(const Caller& caller, const wire::GetRefsArgs& args,
                                 size_t export_index, uint32_t most,
                                 std::vector<wire::BlockReference>* references);

 private:
  StoreParts& store_;
};

}  // namespace dafs::server
