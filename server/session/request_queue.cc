#include "server/session/request_queue.h"

namespace dafs::server {

void RequestQueue::Add(Request& request) {
  request.chain = chains_.ChainOf(request.header().chain_flags);
  if (request.chain != nullptr) {
    if (request.chain->running) return request.chain->waiting.push_back(&request);
    request.chain->running = true;
  }
  ready_.push_back(&request);
}

Request& RequestQueue::Begin() {
  Request& request = *ready_.front();
  ready_.pop_front();
  ++executing_;
  return request;
}

void RequestQueue::Advance(Chain& chain, wire::DafsStatus status) {
  if (status != wire::DafsStatus::kOk) chain.broken = true;
  chain.running = !chain.waiting.empty();
  if (!chain.running) return;
  ready_.push_front(chain.waiting.front());
  chain.waiting.pop_front();
}

}  // namespace dafs::server
