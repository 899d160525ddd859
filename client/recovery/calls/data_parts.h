// Where the data of a read or write lies: part of a lease, or part of application memory. Both
// types have the same interface. The calls (client/recovery/calls/data_calls.h) and the transfers
// (client/files/data/read.cc, client/files/data/write.cc) are templates over it.
// Spec: 4.2.2; WIRE 10.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/status/status.h"
#include "client/exchange/call.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/memory_use.h"
#include "client/memory/user_memory.h"
#include "wire/codec/checksum.h"

namespace dafs::client {

// Part of a lease.
struct LeasePart {
  BufferPool* pool = nullptr;
  const BufferLease* lease = nullptr;
  uint32_t position = 0;
  uint32_t size = 0;

  std::byte* data() const { return lease->payload() + position; }
  std::span<std::byte> bytes() const { return {data(), size}; }
  // Advertises the bytes to the server for the request that is being encoded. Once for each
  // request.
  absl::StatusOr<wire::DirectOpBuffer> Expose() const { return pool->Expose(*lease, data(), size); }
  absl::Status Expose(wire::DirectOpBuffers& to) const {
    absl::StatusOr<wire::DirectOpBuffer> buffer = Expose();
    if (buffer.ok()) to.assign(1, *buffer);
    return buffer.status();
  }

  // The `bytes` bytes that start at `before`.
  LeasePart Sub(uint32_t before, uint32_t bytes) const {
    return {pool, lease, position + before, bytes};
  }
  bool registered() const { return true; }
  // Mark decides when `call` is sent. Pin records the memory that the server may access for it.
  void Mark(CallBase&) const {}
  void Pin(CallBase& call) const { call.advertised = lease; }
  bool given_up() const { return false; }
  absl::Status GivenUp() const { return absl::OkStatus(); }
  MemoryHold Hold() const { return {}; }

  template <class F>
  bool ForEach(F&& visit) const {
    return visit(bytes());
  }
  // The checksum of the first `count` bytes.
  wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const {
    return wire::ComputeChecksum(bytes().first(count), order);
  }
  // Copies `from` to the start of this part.
  void Fill(std::span<const std::byte> from) const {
    std::memcpy(data(), from.data(), from.size());
  }
  // All bytes in one piece: in place, or copied to `message` at offset `at`.
  std::span<const std::byte> Gather(std::span<std::byte>, size_t) const { return bytes(); }
};

// Part of the segments of an I/O, which outlive this.
struct UserPart {
  const UserMemory* memory = nullptr;
  MemoryUse* use = nullptr;
  const MemorySegment* segments = nullptr;  // they hold at least `skip` + `size` bytes
  uint64_t skip = 0;                        // bytes of the segments before this part
  uint32_t size = 0;
  bool for_write = false;  // the server reads the memory

  UserPart Sub(uint32_t before, uint32_t bytes) const {
    UserPart part = *this;
    part.skip += before;
    part.size = bytes;
    while (part.skip > 0 && part.skip >= part.segments->size) {
      part.skip -= part.segments->size;
      ++part.segments;
    }
    return part;
  }
  // Whether all the memory is registered, so that the server can access it.
  bool registered() const {
    return ForEachSegment([](const MemorySegment& segment, std::span<std::byte>) {
      return !segment.handle.is_null();
    });
  }
  // Requests of the application are collected until the loop's next turn, and sent together.
  void Mark(CallBase& call) const { call.leaves_with_turn = true; }
  void Pin(CallBase& call) const { call.memory_use = use; }
  bool given_up() const { return use->given_up(); }
  absl::Status GivenUp() const { return absl::CancelledError("cancelled by the application"); }
  bool given_back() const { return use->given_up() && !use->held(); }
  MemoryHold Hold() const { return MemoryHold(use); }

  absl::Status Expose(wire::DirectOpBuffers& to) const {
    to.clear();
    absl::Status status;
    ForEachSegment([&](const MemorySegment& segment, std::span<std::byte> bytes) {
      absl::StatusOr<wire::DirectOpBuffer> buffer = memory->Expose(
          segment.handle, bytes.data(), static_cast<uint32_t>(bytes.size()), for_write);
      status = buffer.status();
      if (buffer.ok()) to.push_back(*buffer);
      return buffer.ok();
    });
    return status;
  }
  // The number of buffers in a request for this part.
  size_t buffers() const {
    size_t count = 0;
    ForEachSegment([&](const MemorySegment&, std::span<std::byte>) {
      ++count;
      return true;
    });
    return count;
  }
  // The number of bytes in the first `most` buffers.
  uint32_t BytesIn(size_t most) const {
    uint32_t bytes = 0;
    ForEachSegment([&](const MemorySegment&, std::span<std::byte> part) {
      if (most-- == 0) return false;
      bytes += static_cast<uint32_t>(part.size());
      return true;
    });
    return bytes;
  }
  // Visits the bytes in order until `visit` returns false. Returns false in that case.
  template <class F>
  bool ForEach(F&& visit) const {
    return ForEachSegment(
        [&](const MemorySegment&, std::span<std::byte> bytes) { return visit(bytes); });
  }
  wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const {
    wire::Fletcher sum(order);
    Sub(0, count).ForEach([&](std::span<std::byte> bytes) {
      sum.Add(bytes);
      return true;
    });
    return sum.Result();
  }
  void Fill(std::span<const std::byte> from) const {
    Sub(0, static_cast<uint32_t>(from.size())).ForEach([&](std::span<std::byte> bytes) {
      std::memcpy(bytes.data(), from.data(), bytes.size());
      from = from.subspan(bytes.size());
      return true;
    });
  }
  std::span<const std::byte> Gather(std::span<std::byte> message, size_t at) const {
    std::span<const std::byte> all;
    if (skip + size <= segments->size) {
      ForEach([&](std::span<std::byte> bytes) {
        all = bytes;
        return true;
      });
      return all;
    }
    // If the data does not fit, encoding the request fails.
    if (message.size() < at || message.size() - at < size) return {segments->data, size};
    CopyTo(message.subspan(at, size));
    return message.subspan(at, size);
  }
  void CopyTo(std::span<std::byte> to) const {
    ForEach([&](std::span<std::byte> bytes) {
      std::memcpy(to.data(), bytes.data(), bytes.size());
      to = to.subspan(bytes.size());
      return true;
    });
  }

 private:
  template <class F>
  bool ForEachSegment(F&& visit) const {
    uint64_t before = skip;
    uint32_t left = size;
    for (const MemorySegment* segment = segments; left > 0; ++segment) {
      if (before >= segment->size) {
        before -= segment->size;
        continue;
      }
      const auto here = static_cast<uint32_t>(std::min<uint64_t>(left, segment->size - before));
      if (!visit(*segment, std::span(segment->data + before, here))) return false;
      left -= here;
      before = 0;
    }
    return true;
  }
};

}  // namespace dafs::client
