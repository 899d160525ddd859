// Incoming requests: checks them, orders them, begins them.
#include "server/session/requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/session/own_pool.h"
#include "server/session/session.h"
#include "server/session/shared/pool.h"
#include "server/session/shared/procedure.h"
#include "wire/protocol/invalidation.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::Proc;

namespace {

// Responses to requests that arrived together leave together: sending is a third of the cost of a
// small request. A response waits for later ones at most this long, plus the time of the request
// then being executed.
constexpr absl::Duration kMostHeld = absl::Microseconds(100);

}  // namespace

Requests::Requests(Session& session)
    : session_(session),
      flow_(session.connection(), *session.shared().budget, session),
      recorder_(*session.shared().responses, session.store(), session.shared().options->stable),
      invalidates_(wire::AsksForInvalidation(session.connection().endpoint().peer_private_data()) &&
                   session.connection().endpoint().can_invalidate()) {}

void Requests::EndTurn() {
  running_ = false;
  RunReady();
  recent_stats_.Clear();
  held_since_ = absl::InfiniteFuture();
}

void Requests::OnReceive(Receive& receive, size_t size_bytes) {
  Connection& connection = session_.connection();
  if (connection.ending()) return;
  // EndIfSuperseded may not have reached this worker yet. A request served before it does could
  // acquire state that nothing releases any more.
  if (session_.identity().superseded()) {
    return connection.End(absl::AbortedError("a new instance of this client has connected"));
  }
  session_.traffic().received_bytes += size_bytes;
  Request& request = receive.request_;
  request.Take(receive.buffer->memory().first(size_bytes));
  now_ = request.arrived = Loop::Now();
  if (session_.channels().back_control() != nullptr &&
      session_.channels().TakeReply(receive, request.message)) {
    return;
  }
  request.verdict = Check(request.message);
  if (request.verdict.close_channel) {
    return connection.End(
        absl::DataLossError(absl::StrCat("message of ", size_bytes, " bytes with a bad header")));
  }
  session_.terms().SetOrder(request.verdict.order);
  session_.identity().Renew(now_);
  ++session_.traffic().requests;
  request.holds_stream = TakeStream(request);
  queue_.Add(request);
  RunReady();
}

wire::RequestVerdict Requests::Check(std::span<const std::byte> message) {
  const Terms& terms = session_.terms();
  const ClientIdentity& identity = session_.identity();
  Session* owner = session_.channels().owner();
  auto implements = [this](Proc proc) {
    return FindProcedure(*session_.shared().procedures, proc) != nullptr;
  };
  auto knows_cred = [&identity](const wire::CredHandle& handle) {
    return identity.trusted() && identity.client().credentials().Find(handle) != nullptr;
  };
  wire::RequestContext context{.implements = implements, .knows_cred = knows_cred};
  context.order = terms.order();
  context.bound_channel = owner != nullptr;
  context.has_session = owner != nullptr || terms.has_session();
  context.checksum_due = (owner != nullptr ? owner->terms() : terms).checksums();
  // 3.1.1.1.1: the client must renew what it has proven before that expires.
  context.authenticated = owner != nullptr || (identity.authenticated() && !identity.expired(now_));
  context.granted_nreq = flow_.streams().limit();
  context.names =
      terms.Has(wire::kExtensionByteNames) ? wire::NameRule::kBytes : wire::NameRule::kUtf8;
  context.attributes_after = terms.Has(wire::kExtensionAttributesAfter);
  // StatusInChain finds broken chains, once the earlier members are done.
  chain_state_.broken = false;
  return wire::CheckRequest(message, context, chain_state_);
}

// Step 8 of 9.2 beyond the bound: the stream must be free and the sequence number the next one.
// Returns true if the request now occupies its stream.
bool Requests::TakeStream(Request& request) {
  wire::RequestVerdict& verdict = request.verdict;
  if (verdict.status == DafsStatus::kChksum) {
    flow_.streams().Forget(verdict.header.stream_id);
    return false;
  }
  if (flow_.streams().Begin(verdict.header.stream_id, verdict.header.seq_number)) return true;
  if (verdict.status == DafsStatus::kOk || verdict.status == DafsStatus::kNoCreds) {
    verdict.status = DafsStatus::kInval;
    verdict.header_only = true;
  }
  return false;
}

// Begins the ready requests, in order, while send buffers are free. This is a loop, so that a chain
// of any length needs no more stack than one request.
void Requests::RunReady() {
  if (std::exchange(running_, true)) return;
  Connection& connection = session_.connection();
  while (queue_.has_ready() && !connection.ending()) {
    std::unique_ptr<Outgoing> outgoing = flow_.TakeSendBuffer();
    if (outgoing == nullptr) break;
    Request& request = queue_.Begin();
    request.outgoing = std::move(outgoing);
    // The end of the turn flushes the held responses. Outside of a turn nothing would.
    if (connection.in_turn() && queue_.has_ready()) {
      if (held_since_ == absl::InfiniteFuture()) held_since_ = now_;
      holding_ = true;
      Begin(request);
      holding_ = false;
      if (queue_.busy()) now_ = Loop::Now();  // otherwise its response has read the time
      if (now_ - held_since_ >= kMostHeld) Flush();
    } else {
      Begin(request);
    }
  }
  running_ = false;
}

void Requests::Begin(Request& request) {
  Call& call = *request.call;
  const Proc proc = request.header().procedure;
  request.queued = now_ - request.arrived;
  const DafsStatus status = StatusInChain(request.verdict.status, request.chain.get());
  if (status != DafsStatus::kOk) return call.FinishUnexecuted(status);
  if (proc != Proc::kGetattrInline) recent_stats_.Clear();
  SetCaller(request);
  const Procedure& procedure = *FindProcedure(*session_.shared().procedures, proc);
  request.own_pool = OwnPool(session_.shared(), request);
  if (request.own_pool != nullptr && procedure.run != nullptr) {
    request.on_pool = true;
    return request.own_pool->Submit([&call, run = procedure.run] { run(call); });
  }
  // Only for requests that finish on this thread within the turn, whose end clears recent_stats_.
  const bool here = procedure.run != nullptr || proc == Proc::kOpen;
  if (request.own_pool == nullptr && here && session_.connection().in_turn()) {
    request.caller.recent = &recent_stats_;
  }
  if (procedure.run != nullptr) {
    procedure.run(call);
  } else {
    Start(procedure.start(call));
  }
}

void Requests::SetCaller(Request& request) {
  request.caller = Caller();
  request.caller.peer = session_.connection().peer();
  request.caller.names = request.verdict.names;
  request.caller.keeps_atime = session_.terms().Has(wire::kExtensionKeepAtime);
  request.caller.fenced_off = &request.fenced_off;
  request.caller.hidden = &request.hidden;
  request.caller.closed = &request.closed;
  request.caller.lock_broken = &request.lock_broken;
  recorder_.Begin(request);
  session_.identity().ActFor(request);
  if (request.caller.promisee != 0) request.caller.promises = &request.promises;
}

}  // namespace dafs::server
