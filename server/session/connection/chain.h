// Chains of requests: the chain of each request, the order of the members, and the state that they
// hand on (current filehandle, current state id, failure).
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

struct Request;

// A chain with members that are being received or executed. Owned by its members and, until the
// last member has arrived, by Chains.
struct Chain {
  bool broken = false;           // a member has failed
  bool running = false;          // a member is being executed
  std::deque<Request*> waiting;  // arrived, in sending order
  std::optional<wire::FileHandle> filehandle;
  std::optional<wire::StateId> state_id;
};

// The chains of one channel. Takes the requests in sending order.
class Chains {
 public:
  // Returns the chain of the request just received with `chain_flags`, even if the request is
  // faulty. Null for a request outside a chain.
  std::shared_ptr<Chain> ChainOf(uint16_t chain_flags);

 private:
  std::shared_ptr<Chain> open_;  // the chain whose next member is due
};

// The status of a member after its predecessors are done; `status` is the result of its own checks
// up to step 9. Step 7 reports a broken chain, before stream_id and cred_handle are checked.
wire::DafsStatus StatusInChain(wire::DafsStatus status, const Chain* chain);

}  // namespace dafs::server
