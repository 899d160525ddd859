// The buffers, the session, the requests and the commits under the operations of one worker.
// Files makes it, connects its parts with the session, and shuts them down.
// Belongs to the thread of its loop. Nothing blocks.
#pragma once

#include <memory>

#include "client/files/shared/operations.h"
#include "client/files/shared/transfer_policy.h"
#include "client/memory/buffer_pool.h"
#include "client/recovery/commit_schedule.h"
#include "client/recovery/committer.h"
#include "client/recovery/reclaim.h"
#include "client/recovery/request_executor.h"
#include "client/session/session_keeper.h"
#include "client/state/client.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

struct WorkerParts {
  // `client` and `loop` outlive it.
  WorkerParts(Client& client, Loop& loop, std::unique_ptr<BufferPool> pool);
  WorkerParts(const WorkerParts&) = delete;
  WorkerParts& operator=(const WorkerParts&) = delete;

  const std::unique_ptr<BufferPool> buffers;
  SessionKeeper session_keeper;
  RequestExecutor executor;
  Committer committer;
  CommitSchedule schedule;
  Reclaim reclaim;
  TransferPolicy transfers;
  const OperationContext context;
};

}  // namespace dafs::client
