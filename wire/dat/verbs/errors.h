// Words and codes for what devices, the connection manager and the kernel report, and the remedies
// for what is missing on a machine. Internal to the verbs provider.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <string>

#include "absl/status/status.h"
#include "wire/dat/address.h"
#include "wire/dat/verbs/opener.h"

namespace dafs::dat::verbs {

// A failed call: "what: strerror". `error` is an errno of either sign (libraries differ).
// ENOMEM, ENOSPC, EMFILE, ENFILE: kResourceExhausted; EINVAL: kInvalidArgument; ETIMEDOUT:
// kDeadlineExceeded; else kUnavailable.
absl::Status CallFailed(const std::string& what, int error);

// A work request that did not succeed; `work` as in "send". Never OK.
absl::Status WorkFailed(const std::string& work, ibv_wc_status status, const Address& peer);

// A connection event that ends a connection, or its making. OK for an orderly close by the peer.
absl::Status ConnectionEnded(rdma_cm_event_type event, int event_status, const Address& peer,
                             bool is_iwarp);

// What is missing for RDMA on this machine, with what to do; OK when nothing is.
absl::Status CheckDevices(Opener& opener);

// "siw0, rxe0".
std::string DeviceNames(Opener& opener);

// The memory-lock limit in words, with the remedy.
std::string MemoryLockRemedy();

}  // namespace dafs::dat::verbs
