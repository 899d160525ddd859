// List I/O for the application: many reads and writes of any files given to the server in one
// request (client/batch/batch.h), from registered memory, with results in completion groups as
// those of client/library/async_io.h, whose rules for threads, memory and files hold here too.
// Spec: FAST03 4 (batch I/O, cancel and expedite); 4.2.3, 6.5.5, 6.5.16.
//
// A batch is for what may take its time: the server may put it behind other requests, in any order.
// Unlike AsyncIo it allocates for each I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/batch/batch.h"
#include "client/library/async_io.h"
#include "client/memory/completion_group.h"
#include "client/memory/user_memory.h"
#include "client/state/identity.h"

namespace dafs::client {

// One read or write of a batch: as an I/O of AsyncIo, but of up to 256 ranges and segments. The
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
  BatchIo(Files& files, const Identity& who);
  // After Files::Shutdown, or when nothing is out. What was not collected is forgotten.
  ~BatchIo() override;

  // Gives all of `requests` to the server; each ends in `group`. Returns their ids, in order.
  // kInvalidArgument: a list breaks the rules of BatchItem, or memory is not registered; kNotFound,
  // kOutOfRange, kPermissionDenied: of UserMemory::Check. Nothing was issued then.
  absl::StatusOr<std::vector<IoId>> Submit(std::span<const BatchIoRequest> requests,
                                           CompletionGroup& group,
                                           const BatchOptions& options = {});

  // The same, waited for: their ends in order.
  absl::StatusOr<std::vector<IoCompletion>> Run(std::span<const BatchIoRequest> requests);

  // The I/O has no window any more. Blocks for a round trip. kNotFound: it has ended;
  // kUnimplemented: the server does not look at windows.
  absl::Status HurryUp(IoId id);

  // Ends an I/O that the server has not taken, with kCancelled. kFailedPrecondition: the server has
  // it, and cannot be told to leave it; it ends as it would have. kNotFound: it has ended.
  absl::Status Cancel(IoId id);

  size_t out() const { return out_; }

 private:
  struct Io;
  absl::StatusOr<std::unique_ptr<Io>> Make(const BatchIoRequest& request, CompletionGroup& group);
  void OnBatchDone(uint64_t cookie, const BatchResult& result) override;

  Files& files_;
  const Identity& who_;
  uint64_t last_ = 0;
  size_t out_ = 0;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Io>> ios_;  // until collected, by a number of ours
};

}  // namespace dafs::client
