// The first step of a restarted server. It finishes the journals of the sessions of an earlier
// instance, so that each records for every request whether it was executed, and its response.
// Spec: 5.2.4. Runs before anything is served; one thread.
#pragma once

#include <string>
#include <vector>

#include "server/clients/response_cache.h"
#include "server/store/holdings/grace.h"
#include "server/store/store.h"

namespace dafs::server {

// Last requests whose outcome their clients may not know.
struct Unheard {
  std::vector<Grace::Doubt> doubts;  // writes that may have been executed in part
  std::vector<Grace::Uncounted> opens;
  std::vector<wire::SessionId> opened_in;  // sessions whose cache has the response to an OPEN
  // The client of each executed LOCKU, once per LOCKU: the lock is no longer counted, but may be
  // reclaimed.
  std::vector<std::string> unlocked_by;
};

// Resolves every slot of the lost sessions' caches to "answered" or "not executed".
Unheard FinishJournals(const ResponseCache& responses, Store& store);

}  // namespace dafs::server
