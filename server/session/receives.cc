#include "server/session/receives.h"

#include <utility>

#include "runtime/status_macros.h"

namespace dafs::server {

absl::Status Receives::Add(size_t size_bytes, bool of_connect) {
  auto receive = std::make_unique<Receive>(session_);
  receive->of_connect = of_connect;
  ASSIGN_OR_RETURN(receive->buffer, MessageBuffer::Create(connection_.domain(), size_bytes));
  RETURN_IF_ERROR(Post(*receive));
  receive->index = posted_.size();
  posted_.push_back(std::move(receive));
  return absl::OkStatus();
}

absl::Status Receives::Post(Receive& receive) {
  absl::Status status = connection_.endpoint().PostReceive(
      CookieOf(&receive), receive.buffer->segment(receive.buffer->memory().size()));
  if (status.ok()) connection_.Posted();
  return status;
}

void Receives::Drop(Receive& receive) {
  const size_t index = receive.index;
  std::swap(posted_[index], posted_.back());
  posted_[index]->index = index;
  // The coroutine that answered is still on the stack and may refer to it.
  dropped_.push_back(std::move(posted_.back()));
  posted_.pop_back();
}

}  // namespace dafs::server
