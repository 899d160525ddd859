// Where a worker reads the next request of the kernel to.
//
// As a rule a kept buffer of the worker's pool, placed so that a WRITE's data begins on a page; the
// WRITE takes the buffer with it. While all write buffers are out there is no room, and the kernel
// queues requests: as a rule one is back at once. If none is for kStarvedAfter (the server is slow,
// or away), there is room apart, in memory of its own, so that requests of programs that are killed
// are read, and others need not wait for writes; WRITEs wait there for a buffer ("parked"), up to
// kParkedMost of them. Belongs to the worker's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "fuse/request/call.h"
#include "runtime/loop.h"
#include "runtime/task.h"

namespace dafs::fuse {

class RequestRoom {
 public:
  static constexpr absl::Duration kStarvedAfter = absl::Milliseconds(200);
  static constexpr size_t kParkedMost = size_t{8} << 20;  // bytes, but for the last

  // `pool` and `loop` outlive it. `made`: there may be room again.
  RequestRoom(client::BufferPool& pool, dat::Loop& loop, uint32_t write_size,
              std::function<void()> made);
  ~RequestRoom();
  RequestRoom(const RequestRoom&) = delete;
  RequestRoom& operator=(const RequestRoom&) = delete;

  // For the next request, header and all. Empty: there is none, and `made` is called when there is.
  std::span<std::byte> Get();
  // Whether Get is worth a try.
  bool MayBe() const { return buffer_ || !waiting_ || Apart(); }

  // With the data of the WRITE that was read last; null if that was read apart, and is to be
  // parked.
  client::BufferLease TakeBuffer();
  // A buffer for the `data` of `call`, which is copied before this suspends: with it, or null when
  // the pool shuts down.
  dat::Task<client::BufferLease> Park(Call& call, std::span<const std::byte> data);
  // Its caller was killed: the data is needed no more, though the buffer is waited for still.
  void Unpark(Call& call);

 private:
  // Nothing is being read: gives back what Get takes again if it is needed.
  void Rest();
  bool HaveBuffer();
  bool Apart() const { return starved_ && parked_bytes_ < kParkedMost; }
  dat::Task<void> WaitForBuffer();

  client::BufferPool& pool_;
  dat::Loop& loop_;
  const uint32_t write_size_;
  const std::function<void()> made_;
  client::BufferLease buffer_;
  bool waiting_ = false;                // for a buffer
  bool starved_ = false;                // for kStarvedAfter none has come back
  dat::Loop::TimerId starving_ = 0;     // until that is so
  std::unique_ptr<std::byte[]> apart_;  // made when it is needed
  size_t parked_bytes_ = 0;
  size_t parked_calls_ = 0;  // those whose caller was killed since are counted still
};

}  // namespace dafs::fuse
