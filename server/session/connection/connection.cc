#include "server/session/connection/connection.h"

#include <utility>

#include "server/session/connection/peer.h"

namespace dafs::server {
namespace {

// The time limit for an orderly end of the transport; after it the connection is aborted.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);

}  // namespace

Connection::Connection(Loop& loop, Pollable& source, dat::Domain& domain,
                       std::unique_ptr<dat::Endpoint> endpoint)
    : loop_(loop),
      source_(source),
      domain_(domain),
      endpoint_(std::move(endpoint)),
      peer_(PeerOf(endpoint_->peer(), endpoint_->tls_peer())),
      peer_name_(endpoint_->peer().ToString()) {}

void Connection::Close() {
  CancelLimit();
  loop_.Cancel(std::exchange(end_timer_, 0));
  endpoint_.reset();
}

size_t Connection::BeginTurn(std::span<dat::Completion> completions) {
  in_turn_ = true;
  return endpoint_->Poll(completions);
}

void Connection::EndTurn() {
  in_turn_ = false;
  endpoint_->Flush();
}

void Connection::Abort(absl::Status why) {
  if (disconnected_) return;
  if (!ending_) end_reason_ = why;
  ending_ = true;
  endpoint_->Abort(std::move(why));
  Posted();
}

void Connection::End(absl::Status why) {
  if (disconnected_ || end_timer_ != 0) return;
  if (!ending_) end_reason_ = std::move(why);
  ending_ = true;
  endpoint_->Disconnect();
  Posted();
  end_timer_ = loop_.RunAfter(kEndTimeout, [this] {
    end_timer_ = 0;
    endpoint_->Abort(absl::DeadlineExceededError("the peer does not close"));
    Posted();
  });
}

void Connection::EndAfter(absl::Duration delay) {
  ending_ = true;
  end_reason_ = absl::OkStatus();
  end_timer_ = loop_.RunAfter(delay, [this] {
    end_timer_ = 0;
    End(absl::OkStatus());
  });
}

void Connection::LimitTo(absl::Duration limit, absl::Status why) {
  limit_timer_ = loop_.RunAfter(limit, [this, why = std::move(why)] {
    limit_timer_ = 0;
    Abort(why);
  });
}

void Connection::CancelLimit() { loop_.Cancel(std::exchange(limit_timer_, 0)); }

void Connection::OnDisconnected(const absl::Status& why) {
  disconnected_ = true;
  if (!ending_) end_reason_ = why;
  ending_ = true;
  loop_.Remove(&source_);
  CancelLimit();
  loop_.Cancel(std::exchange(end_timer_, 0));
}

}  // namespace dafs::server
