// The order in which the requests of one channel are executed. The members of a chain run one after
// another, in the order sent. Any other request may overtake one that waits.
// Spec: 4.3 (request chaining); WIRE 8.2, 9.2 step 7 (R40, R82).
// Belongs to the session's thread.
#pragma once

#include <cstdint>
#include <deque>

#include "server/session/connection/chain.h"
#include "server/session/request.h"

namespace dafs::server {

class RequestQueue {
 public:
  // Takes the request that has just arrived, even a faulty one, and sets its chain. The request is
  // ready at once, unless an earlier member of its chain has not been answered.
  void Add(Request& request);
  // Returns true if a request is ready to be executed.
  bool has_ready() const { return !ready_.empty(); }
  // Removes the first ready request. It counts as executing until End.
  Request& Begin();
  // A request has its result.
  void End() { --executing_; }
  // The response to a member of `chain` has been sent: makes the next member the first that is
  // ready, so that both responses leave together. A failure breaks the chain.
  void Advance(Chain& chain, wire::DafsStatus status);
  // Begins no further request.
  void Clear() { ready_.clear(); }
  // Returns true while requests are executing.
  bool busy() const { return executing_ > 0; }

 private:
  Chains chains_;
  std::deque<Request*> ready_;
  uint32_t executing_ = 0;
};

}  // namespace dafs::server
