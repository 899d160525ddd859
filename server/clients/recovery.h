// The first thing a restarted server does: it finishes the journals that the sessions of an earlier
// instance have left, so that each says of every request whether it was executed, and what it was
// answered. Spec: 5.2.4. Before anything is served; one thread.
#pragma once

#include <string>
#include <vector>

#include "server/clients/response_cache.h"
#include "server/store/holdings/grace.h"
#include "server/store/store.h"

namespace dafs::server {

// What clients may not know of their last requests.
struct Unheard {
  std::vector<Grace::Doubt> doubts;  // writes that may have been executed in part
  std::vector<Grace::Uncounted> opens;
  std::vector<wire::SessionId> opened_in;  // sessions with the answer to an OPEN
  // Clients with an executed LOCKU, once for each: the lock is no longer counted, but may be
  // reclaimed.
  std::vector<std::string> unlocked_by;
};

// Resolves every slot of the lost sessions' caches: answered, or not executed.
Unheard FinishJournals(const ResponseCache& responses, Store& store);

}  // namespace dafs::server
