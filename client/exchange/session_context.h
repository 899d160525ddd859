// Shared by the parts of a session: the worker's objects, the connection, and the agreed values.
// Owned by the Session, which builds the parts after it and destroys it after them.
#pragma once

#include "client/exchange/link.h"
#include "client/exchange/negotiated.h"
#include "client/memory/buffer_pool.h"
#include "client/state/client.h"
#include "runtime/loop/loop.h"
#include "wire/dat/dat.h"
#include "wire/protocol/procedure_totals.h"

namespace dafs::client {

struct SessionContext {
  Client& client;
  Loop& loop;
  BufferPool* const pool;  // null: no direct transfers
  wire::CallTotals& totals;
  const dat::Address peer;
  // Requests a Back-control Channel even if the client's options request none.
  const bool callbacks;
  Link link;
  Negotiated negotiated = {};
};

}  // namespace dafs::client
