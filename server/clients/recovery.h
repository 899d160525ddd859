// The first step of a restarted server. It finishes the journals of the sessions of an earlier
// instance, so that each records for every request whether it was executed, and its response.
// Spec: 5.2.4. Runs before anything is served; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/clients/response_cache.h"
#include "server/store/holdings/grace.h"
#include "server/store/store.h"

namespace dafs::server {

// Last requests whose outcome their clients may not know.
struct Unheard {
  std::vector<Grace::Doubt> doubts;  // writes that may have been executed in part
  std::vector<Grace::Uncounted> opens;
  std::vector<wire::SessionId> opened_in;  // sessions whose cache has the response to an OPEN
  // The executed LOCKUs of each client: these locks are no longer counted, but may be reclaimed.
  absl::flat_hash_map<std::string, uint32_t> unlocks;
};

// Resolves every slot of the lost sessions' caches to "answered" or "not executed".
Unheard FinishJournals(const ResponseCache& responses, Store& store);

}  // namespace dafs::server
