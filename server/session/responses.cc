// Outgoing responses of a session, with the receives and credits that depend on them.
// Spec: 3.2.6.3, 3.2.6.4, 5.2.1; WIRE 11.5.
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"
#include "server/session/session.h"
#include "server/session/worker.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::Proc;

// Returns target_nreq of the response to `call`. Posts the receives for a higher number first.
uint16_t Session::TargetNreq(const Call& call) {
  if (!credit_) return target_ = 1;
  if (receives_.size() != credit_->nreq()) return target_ = static_cast<uint16_t>(credit_->nreq());
  target_ = credit_->Target(call.header().desired_nreq);
  while (receives_.size() < target_) {
    absl::Status status = AddReceive(negotiated_.max_request_size);
    if (status.ok()) continue;
    LogWarning(
        absl::StrCat("session from ", peer_name_, ": no further credit: ", status.ToString()));
    target_ = credit_->Target(static_cast<uint16_t>(receives_.size()));
    break;
  }
  return target_;
}

void Session::Complete(Call& call, DafsStatus status, size_t response_bytes) {
  --executing_;
  const bool idle = executing_ == 0 && pending_work_ != nullptr;
  auto& receive = static_cast<Receive&>(call);
  std::unique_ptr<Outgoing> outgoing = std::move(call.outgoing_);
  std::shared_ptr<Chain> chain = std::move(call.chain_);
  call.credential_.reset();
  const std::optional<uint32_t> invalidate = std::exchange(call.invalidate_, std::nullopt);
  if (status == DafsStatus::kWrongSec) SayWrongPort();
  Remember(call, status, outgoing->buffer->memory().first(response_bytes));
  if (std::exchange(call.holds_stream_, false)) streams_.End(call.header().stream_id);
  // Sequence numbers of the session start after the connect exchange, which a client may repeat
  // with the same number.
  if (wire::IsConnect(call.header().procedure)) streams_.Forget(call.header().stream_id);
  if (ending_ || response_bytes == 0) {
    Park(std::move(outgoing));
    if (!ending_) End(absl::InternalError("a response could not be encoded"));
    return MaybeForget();
  }
  const bool disconnect = call.header().procedure == Proc::kDisconnect && status == DafsStatus::kOk;
  if (!PrepareReceives(receive)) return Park(std::move(outgoing));
  if (disconnect) {
    // The cache ends before the client sees the response and may query it on another session.
    if (cache_ != nullptr) shared_.responses->Ended(*cache_, /*keep=*/false, dat::Loop::Now());
    shared_.sessions->Close(negotiated_.session_id);
    if (pending_work_ != nullptr) pending_work_->Drop();  // none is reported any more
  }
  dat::Segment segment = outgoing->buffer->segment(response_bytes);
  const bool held = holds_answers_ && outgoing->lease.size_bytes() <= DirectBuffers::kSmall;
  Outgoing* cookie = outgoing.release();
  // No client waits for part of a chain, nor for the response to a CLOSE. COMMIT takes so long that
  // waiting for the end of Poll costs nothing. A response with much data leaves at once: the client
  // then copies the data while it is in the CPU's cache.
  dat::Endpoint::SendOptions options;
  const Proc procedure = call.header().procedure;
  options.more = held || (chain != nullptr && !chain->waiting.empty()) ||
                 procedure == Proc::kClose || procedure == Proc::kCommit;
  if (invalidates_) options.invalidate_context = invalidate;
  absl::Status posted = endpoint_->PostSend(CookieOf(cookie), {&segment, 1}, options);
  if (!posted.ok()) {
    Park(std::unique_ptr<Outgoing>(cookie));
    return End(std::move(posted));
  }
  Posted();
  if (cookie->rdma_credits > 0) Moving(cookie->rdma_credits);
  KillPoint(KillStep::kReplied, call.header().procedure);
  if (disconnect) {
    // "After the OK response no further message is sent": the client closes, or the server does.
    ending_ = true;
    end_reason_ = absl::OkStatus();
    end_timer_ = loop().RunAfter(absl::Seconds(1), [this] {
      end_timer_ = 0;
      End(absl::OkStatus());
    });
    return;
  }
  if (chain != nullptr) {
    chain->running = false;
    if (status != DafsStatus::kOk) chain->broken = true;
    if (!chain->waiting.empty()) {
      chain->running = true;
      ready_.push_front(chain->waiting.front());  // first, so that both responses leave together
      chain->waiting.pop_front();
    }
  }
  RunReady();
  if (idle && !ending_) pending_work_->Begin();
}

// Records the response in the Response Cache, even if it can no longer be sent: of modifying
// requests, and of simple ones with CHF_SAVE (5.2.1). Statuses about a cache are not stored (R49).
void Session::Remember(const Call& call, DafsStatus status, std::span<const std::byte> response) {
  if (cache_ == nullptr || !call.holds_stream_ || call.cut_short_) return;
  const wire::RequestHeader& request = call.header();
  if (!IsRemembered(call.verdict_) || call.passes_) {
    return cache_->Passed(request.stream_id, request.seq_number);
  }
  switch (status) {
    case DafsStatus::kNoXidMatch:
    case DafsStatus::kUnknownSession:
    case DafsStatus::kBadSession:
      return;
    default:
      if (response.size() < wire::kHeaderSize) return;
      cache_->Answer(request, status, response.subspan(wire::kHeaderSize));
  }
  KillPoint(KillStep::kRecorded, request.procedure);
}

// Before a response leaves, posts the receive of its request again, or drops it when the number of
// credits shrinks (3.2.6.3, 3.2.6.4.2). Returns false if that failed and ended the session.
bool Session::PrepareReceives(Receive& receive) {
  absl::Status status;
  if (credit_ && receive.of_connect) {
    DropReceive(receive);  // the receives of the open session are posted
  } else if (!credit_ || credit_->ResponseSent(target_)) {
    status = PostReceive(receive);
  } else {
    DropReceive(receive);
  }
  if (status.ok() && credit_) {
    streams_.Grant(credit_->nreq());
    status = send_buffers_.Resize(domain_, credit_->nreq(), negotiated_.max_response_size);
  }
  if (status.ok()) return true;
  End(std::move(status));
  return false;
}

absl::Status Session::AddReceive(size_t size_bytes) {
  auto receive = std::make_unique<Receive>(*this);
  ASSIGN_OR_RETURN(receive->buffer, MessageBuffer::Create(domain_, size_bytes));
  RETURN_IF_ERROR(PostReceive(*receive));
  receive->index = receives_.size();
  receives_.push_back(std::move(receive));
  return absl::OkStatus();
}

absl::Status Session::PostReceive(Receive& receive) {
  absl::Status status = endpoint_->PostReceive(
      CookieOf(&receive), receive.buffer->segment(receive.buffer->memory().size()));
  if (status.ok()) Posted();
  return status;
}

void Session::DropReceive(Receive& receive) {
  const size_t index = receive.index;
  std::swap(receives_[index], receives_.back());
  receives_[index]->index = index;
  // The coroutine that answered is still on the stack and may refer to it.
  dropped_.push_back(std::move(receives_.back()));
  receives_.pop_back();
}

void Session::OnSent(std::unique_ptr<Outgoing> outgoing) {
  outgoing->lease.Release();
  const uint32_t credits = std::exchange(outgoing->rdma_credits, 0);
  send_buffers_.Return(std::move(outgoing));
  if (credits > 0) ReturnRdmaCredits(credits);
  RunReady();
  if (back_control_ != nullptr && bound_to_ != nullptr && bound_to_->pending_work_ != nullptr) {
    bound_to_->pending_work_->Report();
  }
}

// Keeps the response of an ending session instead of sending it. No completion reports any more
// when the RDMA writes posted before it have finished with their memory. So the memory stays
// reserved until the transport has ended.
void Session::Park(std::unique_ptr<Outgoing> outgoing) {
  if (disconnected_) return OnSent(std::move(outgoing));
  parked_.push_back(std::move(outgoing));
}

void Session::SendMessage(std::unique_ptr<Outgoing> outgoing, size_t size_bytes) {
  if (ending_ || size_bytes == 0) {
    send_buffers_.Return(std::move(outgoing));
    return End(absl::InternalError("a directive could not be encoded"));
  }
  dat::Segment segment = outgoing->buffer->segment(size_bytes);
  Outgoing* cookie = outgoing.release();
  absl::Status posted = endpoint_->PostSend(CookieOf(cookie), {&segment, 1}, {});
  if (posted.ok()) return Posted();
  send_buffers_.Return(std::unique_ptr<Outgoing>(cookie));
  End(std::move(posted));
}

}  // namespace dafs::server
