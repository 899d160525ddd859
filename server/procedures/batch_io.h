// Executes one request of a batch.
// Spec: 6.5.5; WIRE 10.1, R59, R88.
// Belongs to the session's thread.
#pragma once

#include "runtime/loop/task.h"
#include "server/procedures/direct_transfer.h"
#include "server/session/session.h"
#include "server/store/store.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// The number of requests executed concurrently, of one batch or of one session.
inline constexpr uint32_t kBatchLanes = 8;

// Executes `request`, which was checked, for `caller`. Stores the result and the request's id in
// *done. Data read is written to the client on `channel`. Returns false if the session is ending
// and the client's data did not arrive. All that is borrowed must outlive the task.
Task<bool> ExecuteItem(Session& session, const Caller& caller, const wire::RwRequest& request,
                       WriteChannel channel, wire::CompletionNotification* done);

}  // namespace dafs::server
