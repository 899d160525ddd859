// Renews the filehandle of the mount's root, which the server does not accept any more.
// Spec: 4.1.4. Belongs to the thread of the loop of the executor.
#pragma once

#include "absl/status/statusor.h"
#include "client/recovery/request_executor.h"
#include "runtime/loop/task.h"

namespace dafs::client {

// Looks the root up again by its path if the refused `call` uses its handle. An expired handle
// leads to the same directory; with a STALE or BADHANDLE one the path may lead to another. Returns
// whether there is a new handle; logs it, or that there is none. Errors: those of
// RequestExecutor::Run.
Task<absl::StatusOr<bool>> RenewRoot(RequestExecutor& executor, RequestExecutor::Gate gate,
                                     CallBase& call);

}  // namespace dafs::client
