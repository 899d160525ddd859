#include "client/exchange/link.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dafs::client {

absl::Status Link::Lost() const {
  return absl::UnavailableError(absl::StrCat("session lost: ", why_.message()));
}

Task<absl::Status> Link::Connected(absl::Time deadline) {
  if (state_ != State::kConnecting) co_return why_;
  Pending<bool> connected;
  connecting_ = &connected;
  const Loop::TimerId timer = loop_.RunAfter(
      deadline - Loop::Now(), [this] { Fail(absl::UnavailableError("no connection in time")); });
  const bool up = co_await connected;
  loop_.Cancel(timer);
  co_return up ? absl::OkStatus() : why_;
}

void Link::Fail(absl::Status why) {
  if (!usable()) return;
  state_ = State::kDying;
  why_ = std::move(why);
  endpoint_->Abort(why_);
  RequestPoll();
}

void Link::Close(absl::Status why) {
  state_ = State::kDying;
  why_ = std::move(why);
  endpoint_->Disconnect();
  RequestPoll();
}

Task<void> Link::Closed() {
  if (state_ == State::kDead) co_return;
  Pending<bool> closed;
  closing_ = &closed;
  co_await closed;
}

void Link::OnConnected() {
  if (connecting_ != nullptr) std::exchange(connecting_, nullptr)->Set(true);
}

void Link::OnDisconnected(const absl::Status& why) {
  if (why_.ok()) {
    why_ = why.ok() ? absl::UnavailableError("the server closed the connection") : why;
  }
  state_ = State::kDead;
}

void Link::SetDead(absl::Status why) {
  why_ = std::move(why);
  state_ = State::kDead;
}

void Link::ResumeWaiters() {
  if (connecting_ != nullptr) std::exchange(connecting_, nullptr)->Set(false);
  if (closing_ != nullptr) std::exchange(closing_, nullptr)->Set(true);
}

}  // namespace dafs::client
