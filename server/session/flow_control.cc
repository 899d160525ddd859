#include "server/session/flow_control.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

absl::Status FlowControl::Start() {
  streams_.Grant(1);
  RETURN_IF_ERROR(send_buffers_.Resize(connection_.domain(), 1, wire::kFirstReceiveBytes));
  return receives_.Add(wire::kFirstReceiveBytes, /*of_connect=*/true);
}

uint32_t FlowControl::Open(size_t request_bytes, size_t response_bytes, uint32_t wanted,
                           uint32_t most) {
  request_bytes_ = request_bytes;
  response_bytes_ = response_bytes;
  credit_.emplace(budget_, request_bytes + response_bytes, most);
  const uint32_t granted = credit_->Open(wanted);
  const size_t before = receives_.size();  // those of the connect exchange
  for (uint32_t i = 0; i < granted; ++i) {
    absl::Status status = receives_.Add(request_bytes);
    if (status.ok()) continue;
    LogWarning(absl::StrCat("session from ", connection_.peer_name(), ": ", i, " of ", granted,
                            " credits: ", status.ToString()));
    break;
  }
  const auto posted = static_cast<uint32_t>(receives_.size() - before);
  if (posted == 0) {
    credit_.reset();
  } else {
    credit_->Limit(posted);
  }
  return posted;
}

uint32_t FlowControl::OpenBackControl(size_t directive_bytes, uint32_t wanted) {
  const size_t buffer = std::max<size_t>(directive_bytes, wire::kFirstReceiveBytes);
  const size_t each = buffer + wire::kFirstReceiveBytes;
  uint32_t granted = wanted;
  while (granted > 1 && !budget_.TryReserve(granted * each)) --granted;
  if (granted == 1) budget_.Reserve(each);  // the first credit, as for every session
  channel_bytes_ = granted * each;
  absl::Status status = send_buffers_.Resize(connection_.domain(), granted + 1, buffer);
  for (uint32_t i = 0; i < granted && status.ok(); ++i) {
    status = receives_.Add(wire::kFirstReceiveBytes);
  }
  if (!status.ok()) connection_.End(std::move(status));
  return granted;
}

void FlowControl::ReleaseMemory() {
  credit_.reset();
  budget_.Release(std::exchange(channel_bytes_, 0));
}

uint16_t FlowControl::Target(uint16_t desired_nreq) {
  if (!credit_) return target_ = 1;
  if (receives_.size() != credit_->nreq()) return target_ = static_cast<uint16_t>(credit_->nreq());
  target_ = credit_->Target(desired_nreq);
  while (receives_.size() < target_) {
    absl::Status status = receives_.Add(request_bytes_);
    if (status.ok()) continue;
    LogWarning(absl::StrCat("session from ", connection_.peer_name(),
                            ": no further credit: ", status.ToString()));
    target_ = credit_->Target(static_cast<uint16_t>(receives_.size()));
    break;
  }
  return target_;
}

absl::Status FlowControl::BeforeResponse(Receive& receive) {
  if (!credit_) return receives_.Post(receive);
  if (receive.of_connect || !credit_->ResponseSent(target_)) {
    receives_.Drop(receive);
  } else {
    RETURN_IF_ERROR(receives_.Post(receive));
  }
  streams_.Grant(credit_->nreq());
  return send_buffers_.Resize(connection_.domain(), credit_->nreq(), response_bytes_);
}

}  // namespace dafs::server
