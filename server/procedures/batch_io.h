// The execution of one request of a batch. Spec: 6.5.5; WIRE 10.1, R59, R88.
// Belongs to the session's thread.
#pragma once

#include "runtime/task.h"
#include "server/session/direct_transfer.h"
#include "server/session/session.h"
#include "server/store/store.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// What of it goes on at once, of one batch or of one session.
inline constexpr uint32_t kBatchLanes = 8;

// Does `request`, which was checked, for `caller`; what comes of it is in *done, the request's id
// too. Data read goes to the client by `channel`. False: the session is ending, and the client's
// data did not come. All that is borrowed outlives the task.
dat::Task<bool> ExecuteItem(Session& session, const Caller& caller, const wire::RwRequest& request,
                            WriteChannel channel, wire::CompletionNotification* done);

}  // namespace dafs::server
