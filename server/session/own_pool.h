// The file that a request goes to, and the pool of threads of an export whose file system may hang:
// all access to its files runs there.
// The worker's thread, unless noted; nothing blocks.
#pragma once

#include "server/session/request.h"
#include "server/session/shared/shared.h"
#include "wire/protocol/types.h"

namespace dafs::server {

// Returns the pool of the export that has this file; null if its file system does not hang. Any
// thread.
Pool* OwnPool(const Shared& shared, const wire::FsHandle& fshandle);
// Returns the pool of the export that `request` goes to. Called before the arguments are decoded,
// because a procedure accesses the store right after that.
Pool* OwnPool(const Shared& shared, const Request& request);
// Returns the pool for work on a file whose OwnPool is `own`: if that is null, the pool that all
// exports share.
inline Pool& PoolFor(const Shared& shared, Pool* own) {
  return own != nullptr ? *own : *shared.pool;
}

// The file that `request` names by a filehandle or takes from its chain, not yet checked; zero if
// it names none.
wire::FileHandle FileOf(const Request& request);

}  // namespace dafs::server
