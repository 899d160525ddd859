// The registered memory for the messages of one session.
// Spec: 3.2.3.1 (a pre-allocated buffer per request), 3.2.6.3.
// Belongs to the session's thread. Allocates and registers only when the number of credits changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/session/transfer/direct_buffers.h"
#include "wire/dat/dat.h"

namespace dafs::server {

// One buffer, registered with the session's domain while it lives.
class MessageBuffer {
 public:
  static absl::StatusOr<std::unique_ptr<MessageBuffer>> Create(dat::Domain& domain,
                                                               size_t size_bytes);
  ~MessageBuffer();
  MessageBuffer(const MessageBuffer&) = delete;
  MessageBuffer& operator=(const MessageBuffer&) = delete;

  std::span<std::byte> memory() const { return {data_, size_bytes_}; }
  dat::Segment segment(size_t size_bytes) const {
    return {data_, static_cast<uint32_t>(size_bytes), region_.get()};
  }

 private:
  MessageBuffer(std::byte* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

  std::byte* data_;
  size_t size_bytes_;
  std::unique_ptr<dat::Region> region_;
};

// A message that is being sent, with the resources that it holds until the send completes.
struct Outgoing {
  std::unique_ptr<MessageBuffer> buffer;
  DirectLease lease;          // sources of the RDMA writes posted before it
  uint32_t rdma_credits = 0;  // returned when the send completes
};

// The buffers that responses are encoded into, one per credit. A buffer is free again when its send
// has completed, so a client that does not read costs no more than these.
class SendBuffers {
 public:
  // Sets the number of buffers to `count`. Surplus buffers in use are freed when they are returned.
  absl::Status Resize(dat::Domain& domain, size_t count, size_t size_bytes);

  // Returns a free buffer, or null if all are in use.
  std::unique_ptr<Outgoing> Take();
  void Return(std::unique_ptr<Outgoing> outgoing);

 private:
  std::vector<std::unique_ptr<Outgoing>> free_;
  size_t count_ = 0;     // target number
  size_t existing_ = 0;  // of the present size, free or in use
  size_t size_bytes_ = 0;
};

}  // namespace dafs::server
