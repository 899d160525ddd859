// List I/O for the application: one request gives the server many reads and writes of any files
// (client/batch/batch.h). It uses registered memory and reports to completion groups. The rules of
// client/library/async_io.h for threads, memory and files apply here too.
// Spec: FAST03 4 (batch I/O, cancel and expedite); 4.2.3, 6.5.5, 6.5.16.
//
// A batch is for I/O that is not urgent: the server may serve it after other requests, in any
// order. Unlike AsyncIo, it allocates for each I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/batch/batch.h"
#include "client/library/io_file.h"
#include "client/memory/completion_group.h"
#include "client/memory/user_memory.h"
#include "client/state/records/identity.h"

namespace dafs::client {

// One read or write of a batch: like an I/O of AsyncIo, but with up to 256 ranges and segments. The
// lists are copied.
struct BatchIoRequest {
  bool write = false;
  IoFile* file = nullptr;
  std::span<const MemorySegment> memory;  // registered
  std::span<const FileRange> ranges;
  uint64_t cookie = 0;
  uint32_t cache_hint = 0;  // wire::CacheHintRead or CacheHintWrite
};

class BatchIo final : private BatchSink {
 public:
  // Both outlive it.
  BatchIo(Files& files, const Identity& user);
  // Call after Files::Shutdown, or when no I/O is outstanding. Drops completions that were not
  // collected.
  ~BatchIo() override;

  // Sends all of `requests` to the server; the completion of each goes to `group`. Returns their
  // ids, in order. kInvalidArgument: a list breaks the rules of BatchItem, or memory is not
  // registered; kNotFound, kOutOfRange, kPermissionDenied: from UserMemory::Check. After an error
  // nothing was issued.
  absl::StatusOr<std::vector<IoId>> Submit(std::span<const BatchIoRequest> requests,
                                           CompletionGroup& group,
                                           const BatchOptions& options = {});

  // The same, but waits for all of them. Returns their completions in order.
  absl::StatusOr<std::vector<IoCompletion>> Run(std::span<const BatchIoRequest> requests);

  // Cancels the time window of an I/O: it is urgent now. Blocks for a round trip. kNotFound: it has
  // ended; kUnimplemented: the server ignores windows.
  absl::Status HurryUp(IoId id);

  // Ends an I/O that the server has not received, with kCancelled. kFailedPrecondition: the server
  // has it and cannot cancel it; the I/O ends normally. kNotFound: it has ended.
  absl::Status Cancel(IoId id);

  size_t outstanding() const { return outstanding_; }

 private:
  struct Io;
  absl::StatusOr<std::unique_ptr<Io>> Make(const BatchIoRequest& request, CompletionGroup& group);
  void OnBatchDone(uint64_t cookie, const BatchResult& result) override;

  Files& files_;
  Batches batches_;
  const Identity& user_;
  uint64_t last_ = 0;
  size_t outstanding_ = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Io>> ios_;  // until collected; by internal number
};

}  // namespace dafs::client
