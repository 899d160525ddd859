// Outgoing responses, with the receives and credits that depend on them.
// Spec: 3.2.6.3, 3.2.6.4, 5.2.1; WIRE 11.5.
#include <optional>
#include <utility>

#include "server/session/audited_requests.h"
#include "server/session/own_pool.h"
#include "server/session/requests.h"
#include "server/session/session.h"
#include "server/session/slow_requests.h"
#include "server/session/worker.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::Proc;

namespace {

// A request that begins this much later than it arrived has waited. Some microseconds pass in any
// case.
constexpr absl::Duration kQueued = absl::Microseconds(20);

// Returns true if no client waits for the response alone: it may leave with a later one.
bool MayWait(Proc procedure, const Chain* chain) {
  // No client waits for part of a chain, nor for the response to a CLOSE. COMMIT takes so long that
  // waiting for the end of the turn costs nothing.
  return (chain != nullptr && !chain->waiting.empty()) || procedure == Proc::kClose ||
         procedure == Proc::kCommit;
}

}  // namespace

void Requests::Complete(Request& request, DafsStatus status, size_t response_bytes) {
  queue_.End();
  PendingWork* const idle_work = queue_.busy() ? nullptr : session_.pending_work();
  const Proc procedure = request.header().procedure;
  now_ = Loop::Now();
  Count(request, response_bytes, status);
  if (AuditLog* const log = session_.shared().audit; log != nullptr) [[unlikely]] {
    AuditRequest(*log, session_, request, status);
  }
  CountUse(request, response_bytes);
  std::unique_ptr<Outgoing> outgoing = std::move(request.outgoing);
  std::shared_ptr<Chain> chain = std::move(request.chain);
  dat::Endpoint::SendOptions options;
  const std::optional<uint32_t> named = std::exchange(request.invalidates, std::nullopt);
  if (invalidates_) options.invalidate_context = named;
  // A later response to the same request has no attributes: they may be others by then.
  const size_t recorded_bytes = response_bytes - request.attributes_bytes;
  Settle(request, status, outgoing->buffer->memory().first(recorded_bytes));
  if (!PrepareToSend(request, response_bytes)) {
    Park(std::move(outgoing));
    return session_.MaybeForget();
  }
  const bool last = procedure == Proc::kDisconnect && status == DafsStatus::kOk;
  if (last) session_.CloseInOrder();
  // A response with much data leaves at once: the client then copies the data while it is in the
  // CPU's cache.
  const bool held = holding_ && outgoing->lease.size_bytes() <= DirectBuffers::kSmall;
  options.more = held || MayWait(procedure, chain.get());
  if (!Send(std::move(outgoing), response_bytes, options)) return;
  KillPoint(KillStep::kReplied, procedure);
  // "After the OK response no further message is sent": the client closes, or the server does.
  if (last) return session_.connection().EndAfter(absl::Seconds(1));
  if (chain != nullptr) queue_.Advance(*chain, status);
  RunReady();
  if (idle_work != nullptr && !session_.connection().ending()) idle_work->Begin();
}

void Requests::Count(const Request& request, size_t response_bytes, DafsStatus status) {
  const wire::ProcInfo* const info = wire::FindProc(request.header().procedure);
  if (info == nullptr) return;  // a client may send any number
  wire::ProcedureTotals& totals = session_.worker().counts().totals.by_proc[wire::RowOf(*info)];
  const absl::Duration took = now_ - request.arrived;
  totals.time.Add(took);
  const absl::Duration slow = session_.shared().options->slow;
  if (slow > absl::ZeroDuration() && took >= slow) NoteSlowRequest(session_, request, took);
  if (status != DafsStatus::kOk) ++totals.errors;
  totals.received_bytes += request.message.size() + request.direct_bytes.to_server;
  totals.sent_bytes += response_bytes + request.direct_bytes.to_client;
  if (request.queued < kQueued) return;
  ++totals.queued;
  totals.queue_time += request.queued;
}

// For `dafsctl server files`, which shows the busiest files.
void Requests::CountUse(const Request& request, size_t response_bytes) {
  const wire::FileHandle file = FileOf(request);
  if (file == wire::FileHandle()) return;
  session_.worker().CountUse(KeyOf(file), request.message.size() + request.direct_bytes.to_server +
                                              request.direct_bytes.to_client + response_bytes);
}

// The request has its result: records it, and releases the stream.
void Requests::Settle(Request& request, DafsStatus status, std::span<const std::byte> response) {
  const wire::RequestHeader& header = request.header();
  request.modification.reset();
  request.credential.reset();
  if (status == DafsStatus::kWrongSec) {
    session_.refusals().SayWrongSecurity(session_.identity().client_id_string());
  }
  recorder_.Record(request, status, response);
  if (std::exchange(request.holds_stream, false)) flow_.streams().End(header.stream_id);
  // Sequence numbers of the session start after the connect exchange, which a client may repeat
  // with the same number.
  if (wire::IsConnect(header.procedure)) flow_.streams().Forget(header.stream_id);
}

// Returns false if the response cannot be sent; the connection is then ending.
bool Requests::PrepareToSend(Request& request, size_t response_bytes) {
  Connection& connection = session_.connection();
  if (connection.ending()) return false;
  absl::Status status = response_bytes > 0
                            ? flow_.BeforeResponse(static_cast<Receive&>(*request.call))
                            : absl::InternalError("a response could not be encoded");
  if (status.ok()) return true;
  connection.End(std::move(status));
  return false;
}

// Returns false if that failed; the connection is then ending.
bool Requests::Send(std::unique_ptr<Outgoing> outgoing, size_t size_bytes,
                    const dat::Endpoint::SendOptions& options) {
  Connection& connection = session_.connection();
  dat::Segment segment = outgoing->buffer->segment(size_bytes);
  Outgoing* cookie = outgoing.release();
  absl::Status posted = connection.endpoint().PostSend(CookieOf(cookie), {&segment, 1}, options);
  if (!posted.ok()) {
    Park(std::unique_ptr<Outgoing>(cookie));
    connection.End(std::move(posted));
    return false;
  }
  connection.Posted();
  session_.traffic().sent_bytes += size_bytes;
  if (cookie->rdma_credits > 0) session_.transfers().watch().Begin(cookie->rdma_credits);
  return true;
}

void Requests::OnSent(std::unique_ptr<Outgoing> outgoing) {
  outgoing->lease.Release();
  const uint32_t credits = std::exchange(outgoing->rdma_credits, 0);
  flow_.ReturnSendBuffer(std::move(outgoing));
  if (credits > 0) session_.transfers().credits().Return(credits);
  if (queue_.has_ready()) now_ = Loop::Now();
  RunReady();
  if (session_.channels().back_control() != nullptr) session_.channels().Report();
}

// Keeps the response of an ending connection instead of sending it. No completion reports any more
// when the RDMA writes posted before it have finished with their memory. So the memory stays
// reserved until the transport has ended.
void Requests::Park(std::unique_ptr<Outgoing> outgoing) {
  if (session_.connection().disconnected()) return OnSent(std::move(outgoing));
  parked_.push_back(std::move(outgoing));
}

void Requests::OnDisconnected() {
  queue_.Clear();
  // Requests that this resumes and answers are not parked again.
  for (std::unique_ptr<Outgoing>& outgoing : std::exchange(parked_, {})) {
    OnSent(std::move(outgoing));
  }
}

bool Requests::ending() const { return session_.connection().ending(); }

void Requests::SendDirective(std::unique_ptr<Outgoing> outgoing, size_t size_bytes) {
  if (ending() || size_bytes == 0) {
    flow_.ReturnSendBuffer(std::move(outgoing));
    return session_.connection().End(absl::InternalError("a directive could not be encoded"));
  }
  Send(std::move(outgoing), size_bytes, {});
}

void Requests::Flush() {
  held_since_ = absl::InfiniteFuture();
  session_.connection().endpoint().Flush();
}

}  // namespace dafs::server
