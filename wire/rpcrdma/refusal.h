// The meaning of an RDMA2_ERROR for the caller, in words.
#pragma once

#include "absl/status/status.h"
#include "wire/rpcrdma/header.h"

namespace dafs::rpcrdma {

// kFailedPrecondition: do not repeat the call. The message names the error and its limits.
absl::Status RefusalStatus(const ErrorBody& error);

}  // namespace dafs::rpcrdma
