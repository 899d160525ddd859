#include "server/store/access/promise_ends.h"

namespace dafs::server {

void PromiseEnds::EndAll() {
  if (send_ != nullptr) send_(promises_.CallAll());
}

void PromiseEnds::End(absl::FunctionRef<bool(const wire::ClientId& client_id)> concerns) {
  if (send_ != nullptr) send_(promises_.CallAll(concerns));
}

}  // namespace dafs::server
