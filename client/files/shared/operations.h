// Shared by the groups of operations of one worker. Files owns it; it outlives the groups.
// Belongs to the thread of its loop.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "client/memory/buffer_pool.h"
#include "client/recovery/request_executor.h"
#include "client/state/client.h"
#include "client/state/records/identity.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"

namespace dafs::client {

class CallBase;
class Committer;
class SessionKeeper;
class TransferPolicy;

struct OperationContext {
  Client& client;
  Loop& loop;
  BufferPool& buffers;
  SessionKeeper& session_keeper;
  RequestExecutor& executor;
  Committer& committer;
  TransferPolicy& transfers;
};

// The base of a group: the context under the names that the operations use. Every operation is a
// coroutine; client/files/files.h lists the rules and the errors of all of them.
class OperationGroup {
 public:
  OperationGroup(const OperationGroup&) = delete;
  OperationGroup& operator=(const OperationGroup&) = delete;

 protected:
  explicit OperationGroup(const OperationContext& context)
      : client_(context.client),
        loop_(context.loop),
        buffers_(context.buffers),
        session_keeper_(context.session_keeper),
        executor_(context.executor),
        committer_(context.committer),
        transfers_(context.transfers) {}
  ~OperationGroup() = default;

  // As in RequestExecutor.
  Task<absl::Status> Run(const Identity* user, std::span<CallBase* const> chain) {
    return executor_.Run(user, chain);
  }
  Task<absl::Status> RunAll(const Identity* user, std::span<CallBase* const> chain,
                            std::string_view what, size_t extra = 0) {
    return executor_.RunAll(user, chain, what, extra);
  }

  Client& client_;
  Loop& loop_;
  BufferPool& buffers_;
  SessionKeeper& session_keeper_;
  RequestExecutor& executor_;
  Committer& committer_;
  TransferPolicy& transfers_;
};

}  // namespace dafs::client
