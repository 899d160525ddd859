// Makes the queue pair of an endpoint, within the limits of its device. Blocks for the system call.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "wire/dat/dat.h"
#include "wire/dat/verbs/connection.h"
#include "wire/dat/verbs/device.h"
#include "wire/dat/verbs/domain.h"
#include "wire/dat/verbs/handles.h"
#include "wire/dat/verbs/send_queue.h"

namespace dafs::dat::verbs {

// The send queue that `options` need, as far as the device has it.
SendQueueLimits LimitsOf(const DeviceLimits& device, const EndpointOptions& options);

// Makes the queue pair, whose completions go to `cq`, with up to `inline_bytes` of inline space.
// Writes the size that the device granted to `limits`. The error names the sizes, and the remedy if
// there is no memory.
absl::StatusOr<QueuePair> MakeQueuePair(Connection& connection, const VerbsDomain& domain,
                                        ibv_cq* cq, uint32_t max_receives, uint32_t inline_bytes,
                                        SendQueueLimits& limits);

}  // namespace dafs::dat::verbs
