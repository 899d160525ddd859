// The registered message buffers of a session: for each slot one to send a request from, and as
// many to receive responses into. Spec: 3.2.6.3.
// Belongs to the thread of the session's loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class MessageBuffers {
 public:
  MessageBuffers() = default;
  ~MessageBuffers();  // after the endpoint, before the domain
  MessageBuffers(const MessageBuffers&) = delete;
  MessageBuffers& operator=(const MessageBuffers&) = delete;

  // Maps and registers `count` buffers of each kind. Call once, before anything else.
  // kResourceExhausted: no memory. Other errors: those of Domain::Register.
  absl::Status Map(dat::Domain& domain, size_t count, uint32_t send_bytes, uint32_t receive_bytes);

  std::span<std::byte> Send(size_t index) const {
    return memory_.subspan(index * send_bytes_, send_bytes_);
  }
  // The first `size_bytes` of a send buffer, to be posted.
  dat::Segment SendSegment(size_t index, uint32_t size_bytes) const {
    return {Send(index).data(), size_bytes, region_.get()};
  }
  // The message in a receive buffer.
  std::span<const std::byte> Received(size_t index, uint32_t size_bytes) const {
    return {Receive(index), size_bytes};
  }
  // A whole receive buffer, to be posted.
  dat::Segment ReceiveSegment(size_t index) const {
    return {Receive(index), receive_bytes_, region_.get()};
  }

 private:
  std::byte* Receive(size_t index) const {
    return memory_.data() + count_ * send_bytes_ + index * receive_bytes_;
  }

  std::span<std::byte> memory_;  // sends, then receives
  std::unique_ptr<dat::Region> region_;
  size_t count_ = 0;
  uint32_t send_bytes_ = 0;     // size of one send buffer
  uint32_t receive_bytes_ = 0;  // size of one receive buffer
};

}  // namespace dafs::client
