// Transfers an asynchronous I/O. A lane is a coroutine that takes piece after piece of the I/O
// (client/library/async_record.h) and sends one request for each. Several lanes of an I/O keep as
// many requests outstanding. Spec: 4.2, 6.5.27, 6.5.28, 6.5.38, 6.5.39.
// Internal to client/library. Belongs to the thread of its loop. A lane allocates nothing after a
// warm-up, except the list of buffers of a request with more than two segments.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/files/files.h"
#include "client/library/async_record.h"
#include "client/library/reference_reads.h"
#include "client/state/records/identity.h"
#include "runtime/loop/task.h"

namespace dafs::client {

class AsyncLanes {
 public:
  // For I/O on `files` on behalf of `user`; both outlive it.
  AsyncLanes(Files& files, const Identity& user) : files_(files), user_(user) {}
  AsyncLanes(const AsyncLanes&) = delete;
  AsyncLanes& operator=(const AsyncLanes&) = delete;

  // Small reads are made by reference where that is possible. Borrowed; null: never.
  void UseReferences(ReferenceReads* references) { references_ = references; }

  // One lane of `record`, which was added to it. Returns after no piece is left, or the I/O was
  // given up; the record then knows that the lane has ended.
  Task<void> Run(AsyncRecord& record);

 private:
  // Whether `size` bytes are copied through the library's buffers. Data that fits into a message
  // need not be.
  bool Stages(const AsyncRecord& record, uint32_t size) const;
  // False: to be read by a request.
  Task<bool> ReadByReference(AsyncRecord& record, AsyncPiece& piece);
  // Transfers from or to the memory of the application.
  Task<absl::Status> RunPiece(AsyncRecord& record, AsyncPiece& piece);
  // The same through a buffer of the library, because the memory is not registered.
  Task<absl::Status> RunStaged(AsyncRecord& record, AsyncPiece& piece);

  Files& files_;
  const Identity& user_;
  ReferenceReads* references_ = nullptr;
};

}  // namespace dafs::client
