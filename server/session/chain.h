// Chains of requests: which request belongs to which chain, whose turn it is, and what the members
// hand on: current filehandle, current state id, failure.
// Spec: 4.3 (request chaining), WIRE section 8, 9.2 step 7 (R40, R82).
// Belongs to the session's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class Call;

// One chain while members of it are being received or executed. Shared by its members and, until
// the last one has arrived, by the Chains that hands it out.
struct Chain {
  bool broken = false;        // a member has failed
  bool running = false;       // a member is being executed
  std::deque<Call*> waiting;  // arrived, in sending order
  std::optional<wire::FileHandle> filehandle;
  std::optional<wire::StateId> state_id;
};

// The chains of one channel, request by request in sending order.
class Chains {
 public:
  // The chain of the request just received with `chain_flags`, whatever is wrong with it; null for
  // a request that stands alone.
  std::shared_ptr<Chain> ChainOf(uint16_t chain_flags);

 private:
  std::shared_ptr<Chain> open_;  // the chain whose next member is due
};

// What a member answers whose check up to step 9 gave `status`, once its predecessors are done: a
// broken chain is found at step 7, before stream_id and cred_handle.
wire::DafsStatus StatusInChain(wire::DafsStatus status, const Chain* chain);

}  // namespace dafs::server
