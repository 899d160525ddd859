#include "wire/dat/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "wire/dat/verbs/errors.h"

namespace dafs::dat::verbs {

SendQueueLimits LimitsOf(const DeviceLimits& device, const EndpointOptions& options) {
  SendQueueLimits limits;
  // One request binds a window and another ends it. Both may be unretired at the same time.
  limits.max_operations = std::max(options.max_sends, 1u) + 2 * options.max_windows;
  limits.max_reads =
      std::clamp(options.max_rdma_reads, 1u, std::min(device.max_reads_out, uint32_t{255}));
  // Room for one request of every operation, for the requests of the reads in flight, and for a
  // flush.
  limits.max_requests = std::min(limits.max_operations + limits.max_reads + 2, device.max_work);
  limits.max_segments = std::clamp(options.max_segments, 1u, device.max_segments);
  limits.max_request_segments = limits.max_segments;
  limits.max_read_segments = std::min(limits.max_segments, device.max_read_segments);
  limits.max_request_bytes = device.max_message_bytes;
  limits.signal_bytes = device.signal_bytes;
  return limits;
}

absl::StatusOr<QueuePair> MakeQueuePair(Connection& connection, const VerbsDomain& domain,
                                        ibv_cq* cq, uint32_t max_receives, uint32_t inline_bytes,
                                        SendQueueLimits& limits) {
  int error = 0;
  // A device refuses more inline data than it supports, but does not report its limit: try smaller
  // sizes.
  for (uint32_t wanted = inline_bytes;; wanted = wanted > 64 ? wanted / 2 : 0) {
    ibv_qp_init_attr attributes = {};
    attributes.send_cq = cq;
    attributes.recv_cq = cq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 0;
    attributes.cap.max_send_wr = limits.max_requests;
    attributes.cap.max_recv_wr = max_receives;
    attributes.cap.max_send_sge = limits.max_segments;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = wanted;
    rdma_cm_id* id = connection.id();
    if (connection.Call(
            [&] { return rdma_create_qp(id, domain.protection_domain(), &attributes); }) == 0) {
      limits.inline_bytes = std::min(attributes.cap.max_inline_data, wanted);
      return QueuePair(id);
    }
    error = errno;
    if (wanted == 0) break;
  }
  std::string what = absl::StrCat("make a queue pair on ", domain.limits().name, " with ",
                                  limits.max_requests, " sends and ", max_receives, " receives");
  if (error == ENOMEM) absl::StrAppend(&what, " (", MemoryLockRemedy(), ")");
  return CallFailed(what, error);
}

}  // namespace dafs::dat::verbs
