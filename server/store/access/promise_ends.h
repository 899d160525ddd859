// Ends promises that clients have, by calls to these clients (WIRE 9.6): when what an export's path
// leads to has changed, or a fence shuts clients out.
// Thread-safe; nothing blocks.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/store/holdings/promises/promises.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class PromiseEnds {
 public:
  // Borrowed.
  explicit PromiseEnds(Promises& promises) : promises_(promises) {}

  // Sets what makes the calls. `send` must not block, and outlives all requests. Call before the
  // first request.
  using Send = std::function<void(std::vector<Promises::Call> calls)>;
  void SetSend(Send send) { send_ = std::move(send); }

  // Ends all promises.
  void EndAll();
  // Ends the promises of the clients for which `concerns` returns true. It must not call Promises.
  void End(absl::FunctionRef<bool(const wire::ClientId& client_id)> concerns);

 private:
  Promises& promises_;
  Send send_;  // null: no client takes part
};

}  // namespace dafs::server
