// The memory that a worker reads the kernel's next request into.
//
// Usually it is a buffer of the worker's pool, aligned so that the data of a WRITE begins on a
// page. A WRITE keeps the buffer. While all write buffers are in use there is no room, and the
// kernel queues requests; usually a buffer is free again at once.
//
// If none is free for kStarvedAfter (the server is slow or unreachable), requests are read into
// separate memory. Requests of killed programs are then still read, and other requests need not
// wait for writes. WRITEs that were read there wait for a buffer ("parked"), up to kParkedMost of
// them.
//
// Belongs to the worker's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "fuse/request/call.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class RequestRoom {
 public:
  static constexpr absl::Duration kStarvedAfter = absl::Milliseconds(200);
  static constexpr size_t kParkedMost = size_t{8} << 20;  // bytes; the last WRITE may exceed it

  // `pool` and `loop` must outlive it. Calls `made` when there may be room again.
  RequestRoom(client::BufferPool& pool, Loop& loop, uint32_t write_size,
              std::function<void()> made);
  ~RequestRoom();
  RequestRoom(const RequestRoom&) = delete;
  RequestRoom& operator=(const RequestRoom&) = delete;

  // Returns the memory for the next request, including its header. If it is empty, there is no
  // room, and `made` is called when there is.
  std::span<std::byte> Get();
  // False if Get would return nothing.
  bool MayBe() const { return buffer_ || !waiting_ || Apart(); }

  // Returns the buffer with the data of the WRITE that was read last. Returns null if it was read
  // into separate memory; the caller then parks it.
  client::BufferLease TakeBuffer();
  // Waits for a buffer for the `data` of `call`, which is copied before this suspends. Returns the
  // buffer with the data, or null when the pool shuts down.
  Task<client::BufferLease> Park(Call& call, std::span<const std::byte> data);
  // The caller of `call` was killed. Drops its data; Park still waits for the buffer.
  void Unpark(Call& call);

 private:
  // Releases the buffer and the separate memory while nothing is read. Get takes them again.
  void Rest();
  bool HaveBuffer();
  bool Apart() const { return starved_ && parked_bytes_ < kParkedMost; }
  Task<void> WaitForBuffer();

  client::BufferPool& pool_;
  Loop& loop_;
  const uint32_t write_size_;
  const std::function<void()> made_;
  client::BufferLease buffer_;
  bool waiting_ = false;                // for a buffer
  bool starved_ = false;                // no buffer was free for kStarvedAfter
  Loop::TimerId starving_ = 0;          // sets starved_
  std::unique_ptr<std::byte[]> apart_;  // the separate memory, allocated when it is needed
  size_t parked_bytes_ = 0;
  size_t parked_calls_ = 0;  // includes those whose caller was killed
};

}  // namespace dafs::fuse
