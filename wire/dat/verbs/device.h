// The abilities and limits of a device, queried once per connection. Internal to the verbs
// provider.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace dafs::dat::verbs {

struct DeviceLimits {
  std::string name;
  bool is_iwarp = false;
  // The target of an RDMA read must allow remote writes, because an iWARP read response is a tagged
  // write. siw is an iWARP device too, but recognises its own reads and does not need this.
  bool read_sink_needs_remote_write = false;
  bool is_siw = false;
  // A send or RDMA write of this many bytes or more must be signaled itself. Otherwise its buffers
  // may still be in use after a later request has completed. siw passes an unsignaled one of a page
  // or more to TCP by reference. It reports later requests complete before the peer has taken those
  // pages out of the socket (kernel, siw_qp_tx.c: siw_qp_prepare_tx, use_sendpage). A signaled one
  // is copied. siw also sends its read responses by reference: their source must not change before
  // the reader reports completion, which in DAFS is the server's response.
  uint64_t signal_bytes = ~uint64_t{0};
  bool can_invalidate = false;  // Send with Invalidate
  bool is_rxe = false;
  uint32_t max_windows = 0;        // memory windows of type 2, bound by work requests; 0: none
  uint32_t max_segments = 1;       // of a send, receive or RDMA write
  uint32_t max_read_segments = 1;  // of an RDMA read
  uint32_t max_work = 1;           // requests in one queue
  uint32_t max_completions = 1;    // entries of one completion queue
  uint32_t max_reads_out = 1;      // RDMA reads in flight that this side may start
  uint32_t max_reads_in = 1;       // RDMA reads in flight that the peer may start
  uint64_t max_message_bytes = 0;  // of one work request
};

// Queries the device and its port. Slow.
absl::StatusOr<DeviceLimits> QueryDevice(ibv_context* context, uint8_t port);

}  // namespace dafs::dat::verbs
