// One read or write of a batch: its memory, its parts of a file, its result. Values, except the
// memory.
// Spec: 6.1.7, 6.5.5.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/recovery/calls/data_calls.h"
#include "wire/codec/checksum.h"
#include "wire/messages/batch.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// The memory of one item. The server writes it for reads and reads it for writes; its owner has
// registered it for that. The server may use it until the item's result is available. Memory
// windows are closed before the client uses the result.
class BatchData {
 public:
  virtual ~BatchData() = default;
  virtual uint64_t size() const = 0;
  // The number of buffers that name it in a request; at most 256.
  virtual size_t buffers() const = 0;
  // Opens it to the server, and stores the server's names for its buffers in `to`, in order. Called
  // while a request is encoded, because each session registers the memory again. Errors as of
  // RemoteAccess::Expose.
  virtual absl::Status Expose(wire::DirectOpBuffers& to) const = 0;
  // The checksum of the first `count` bytes.
  virtual wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const = 0;
};

// Part of a buffer lease as the memory of an item.
class LeaseBatchData final : public BatchData {
 public:
  explicit LeaseBatchData(const LeasePart& part) : part_(part) {}
  uint64_t size() const override { return part_.size; }
  size_t buffers() const override { return 1; }
  absl::Status Expose(wire::DirectOpBuffers& to) const override { return part_.Expose(to); }
  wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const override {
    return wire::ComputeChecksum(part_.bytes().first(count), order);
  }

 private:
  LeasePart part_;
};

// One read or write. Chunks and memory have the same total length, but may be divided differently:
// the bytes of the chunks, in order, are the bytes of the memory.
struct BatchItem {
  wire::RwFlag rw_flag = wire::RwFlag::kRead;
  wire::FileHandle file;
  wire::StateId state_id;  // as returned by an operation; zero: none
  // At most 256. Set wire::CacheHintRead or CacheHintWrite as they apply.
  absl::InlinedVector<wire::FileChunk, 2> chunks;
  const BatchData* data = nullptr;  // borrowed until the result is available
  uint64_t cookie = 0;              // the caller's, for BatchSink
};

// OK: the first `bytes_transferred` bytes were transferred. Fewer than requested is not an error: a
// read reached the end of the file, or the server did less. Otherwise `status` is the error, as of
// a Read or Write of DataOperations; bytes transferred before the error do not count.
struct BatchResult {
  absl::Status status;
  uint32_t bytes_transferred = 0;
};

// Receives the results of Submit.
class BatchSink {
 public:
  virtual ~BatchSink() = default;
  // The item with `cookie` has ended; the server can no longer access its memory. Called once for
  // each item, in any order, never before Submit returns. May submit, hurry and cancel.
  virtual void OnBatchDone(uint64_t cookie, const BatchResult& result) = 0;
};

struct BatchOptions {
  // How long the results may take: the server may serve other requests before such items. Zero: as
  // urgent as any other request. Rounded to microseconds, at most 71 minutes.
  absl::Duration window;
  // How many results the server should report at a time; 0: unchanged. Applies to all outstanding
  // items of the session.
  uint32_t num_completions = 0;
};

}  // namespace dafs::client
