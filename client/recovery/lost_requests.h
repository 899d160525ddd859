// What became of the requests that were out when a session was lost: asks the Response Cache of the
// old session on the new one, and tells the server when nobody needs that cache any more.
// Spec: 5.2.5 (use of the Response Cache), 4.3.4 (chains), 6.3; WIRE 9.4.
// Belongs to the thread of its loop; one for each worker.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/recovery/waits.h"
#include "client/session/call.h"
#include "client/state/client.h"
#include "runtime/task.h"

namespace dafs::client {

class Connection;
class Reclaim;

class LostRequests {
 public:
  // All outlive it.
  LostRequests(Client& client, Connection& connection, Waits& waits)
      : client_(client), connection_(connection), waits_(waits) {}

  // Who reclaims the opens that are found; outlives this. Before the first Resolve.
  void ReclaimBy(Reclaim& reclaim) { reclaim_ = &reclaim; }

  // What is to be done with a chain after Resolve.
  enum class Next : uint8_t {
    kRest,   // issue the members that are not answered, or go on with the answer of the last
    kWhole,  // issue all of it again (4.3.1: reads between locks that were given back)
  };

  // Finds out about the members of `chain` that were sent and not answered; `why` is how their
  // session ended. Members that the server executed have their answer afterwards; those that are
  // still unanswered were not executed, or may be executed again. An OPEN that was executed before
  // a restart of the server is reclaimed: nothing may be done to its file before, and the server
  // expects it until the old session's cache is discarded. Waits for a session. kUnknown: a member
  // that must not be executed twice may have been executed, and the server does not know.
  // kDeadlineExceeded, kCancelled.
  dat::Task<absl::StatusOr<Next>> Resolve(std::span<CallBase* const> chain, absl::Status why,
                                          absl::Time deadline);

  // A session is over, and all that was out on it has been resumed.
  void SessionLost(const wire::SessionId& session_id);
  // There is a session: tells the server what it need not keep.
  void SessionReady();

  // Members found in the Response Cache so far, and members that were issued again.
  uint64_t fetched() const { return fetched_; }
  uint64_t reissued() const { return reissued_; }

 private:
  enum class Fate : uint8_t { kAnswered, kNotExecuted, kForgotten };
  class Claim;

  dat::Task<absl::StatusOr<Next>> ResolveClaimed(std::span<CallBase* const> chain, absl::Status why,
                                                 absl::Time deadline);
  dat::Task<absl::StatusOr<Fate>> Ask(CallBase& call, absl::Time deadline);
  dat::Task<absl::StatusOr<bool>> AnyExecuted(std::span<CallBase* const> chain,
                                              absl::Time deadline);
  dat::Task<absl::Status> ReclaimFound(std::span<CallBase* const> chain);
  dat::Task<void> Discard();
  void StartDiscard();

  Client& client_;
  Connection& connection_;
  Waits& waits_;
  Reclaim* reclaim_ = nullptr;
  // How many chains still ask about each session that was lost.
  absl::flat_hash_map<wire::SessionId, int> claims_;
  std::vector<wire::SessionId> lost_;     // over, but asked about
  std::vector<wire::SessionId> useless_;  // to be discarded
  bool discarding_ = false;
  uint64_t fetched_ = 0;
  uint64_t reissued_ = 0;
};

}  // namespace dafs::client
