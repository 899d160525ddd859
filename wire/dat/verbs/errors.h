// Converts errors of devices, the connection manager and the kernel to statuses, and names the
// remedy for what a machine lacks. Internal to the verbs provider.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <string>

#include "absl/status/status.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/opener.h"

namespace dafs::dat::verbs {

// The status of a failed call: "what: strerror". `error` is an errno of either sign (libraries
// differ). ENOMEM, ENOSPC, EMFILE, ENFILE: kResourceExhausted; EINVAL: kInvalidArgument; ETIMEDOUT:
// kDeadlineExceeded; otherwise kUnavailable.
absl::Status CallFailed(const std::string& what, int error);

// The status of a failed work request. `work` names it, for example "send". Never OK.
absl::Status WorkFailed(const std::string& work, ibv_wc_status status, const Address& peer);

// The status for an event that ends a connection or its set-up. OK for an orderly close by the
// peer.
absl::Status ConnectionEnded(rdma_cm_event_type event, int event_status, const Address& peer,
                             bool is_iwarp);

// Returns an error if this machine lacks something that RDMA needs; the message has the remedy.
absl::Status CheckDevices(Opener& opener);

// For example "siw0, rxe0".
std::string DeviceNames(Opener& opener);

// Describes the memory-lock limit and its remedy.
std::string MemoryLockRemedy();

}  // namespace dafs::dat::verbs
