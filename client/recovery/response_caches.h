// The Response Caches of lost sessions, which the server keeps until the client discards them. One
// is discarded as soon as no chain has to ask it any more. Spec: 5.2.5, 6.3. Belongs to the thread
// of its loop; one for each worker.
#pragma once

#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/exchange/call.h"
#include "client/state/client.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class SessionKeeper;

class ResponseCaches {
 public:
  // Both must outlive this.
  ResponseCaches(Client& client, SessionKeeper& session_keeper)
      : client_(client), session_keeper_(session_keeper) {}
  ResponseCaches(const ResponseCaches&) = delete;
  ResponseCaches& operator=(const ResponseCaches&) = delete;

  // While it exists, the cache that `chain` may have to ask is not discarded.
  class Claim {
   public:
    Claim(ResponseCaches& caches, std::span<CallBase* const> chain);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    ResponseCaches& caches_;
    wire::SessionId session_id_;
    bool claimed_ = false;
  };

  // Call after a session ended and its outstanding requests were resumed.
  void SessionLost(const wire::SessionId& session_id);
  // Call when a session is established: discards the caches that are no longer needed.
  void SessionReady() { StartDiscard(); }

 private:
  void StartDiscard();
  Task<void> Discard();

  Client& client_;
  SessionKeeper& session_keeper_;
  // The number of chains that still ask about each lost session.
  absl::flat_hash_map<wire::SessionId, int> claims_;
  std::vector<wire::SessionId> lost_;     // ended, but a chain still asks about them
  std::vector<wire::SessionId> useless_;  // to be discarded
  bool discarding_ = false;
};

}  // namespace dafs::client
