#include "client/files/shared/worker_parts.h"

#include <utility>

namespace dafs::client {

WorkerParts::WorkerParts(Client& client, Loop& loop, std::unique_ptr<BufferPool> pool)
    : buffers(std::move(pool)),
      session_keeper(client, loop, buffers.get(), client.options().server_name),
      executor(client, loop, session_keeper),
      committer(executor),
      schedule(committer, client.uncommitted(), loop),
      reclaim(executor, committer),
      transfers(client, *buffers, session_keeper),
      context{client, loop, *buffers, session_keeper, executor, committer, transfers} {}

}  // namespace dafs::client
