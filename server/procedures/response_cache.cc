// Queries of the Response Cache of a lost session: CHECK_RESPONSE, FETCH_RESPONSE,
// DISCARD_RESPONSES.
// Spec: 5.2.5, 6.3; WIRE 9.4, R49, R50. They need no credentials but the session's (5.2.5).
#include <atomic>
#include <cstring>
#include <memory>

#include "server/procedures/handler.h"
#include "server/session/worker.h"
#include "server/store/holdings/grace.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// A client asks about a session only if it has lost it. If this server has not noticed the loss,
// since the path drops packets, the client must not wait until it does: ends the session.
void EndLostSession(Session& asking, const wire::SessionId& session_id) {
  if (session_id == asking.terms().negotiated().session_id) return;
  for (const auto& worker : *asking.shared().workers) {
    worker->EndSession(session_id, asking.identity().client().client_id(),
                       absl::UnavailableError("the client has lost this session"));
  }
}

// Finds the cache of a lost session of this client. BAD_SESSION also means a session that is
// connected and has no cache (R50). NOT_AUTHORIZED: the session belongs to another client.
DafsStatus FindResponses(Call& call, const wire::SessionId& session_id,
                         std::shared_ptr<SessionCache>* cache) {
  Session& session = call.session();
  const DafsStatus status = session.shared().responses->Find(
      session_id, session.identity().AsCacheOwner(), call.order(), cache);
  if (status == DafsStatus::kBadSession) EndLostSession(session, session_id);
  if (status != DafsStatus::kUnknownSession) return status;
  return session.shared().sessions->Find(session_id).ok() ? DafsStatus::kBadSession : status;
}

// The same for a query, whose list of errors has no NOT_AUTHORIZED (R50).
DafsStatus FindToQuery(Call& call, const wire::SessionId& session_id,
                       std::shared_ptr<SessionCache>* cache) {
  const DafsStatus status = FindResponses(call, session_id, cache);
  return status == DafsStatus::kNotAuthorized ? DafsStatus::kBadSession : status;
}

// 6.3.1.
DafsStatus CheckResponse(Call& call, const wire::CheckResponseArgs& args, wire::CheckResponseRes*) {
  std::shared_ptr<SessionCache> cache;
  DafsStatus status = FindToQuery(call, args.session_id, &cache);
  if (status != DafsStatus::kOk) return status;
  SessionCache::Entry entry;
  status = cache->Find(args.xid_stream, args.xid_seq, args.procedure, &entry);
  if (status != DafsStatus::kDelay) call.session().store().grace().Asked(args.session_id);
  return status;
}

// 6.3.2. Sends the stored status and result with a new header.
void FetchResponse(Call& call) {
  wire::FetchResponseArgs args;
  if (!call.Decode(args)) return;
  std::shared_ptr<SessionCache> cache;
  DafsStatus status = FindToQuery(call, args.session_id, &cache);
  SessionCache::Entry entry;
  if (status == DafsStatus::kOk) {
    status = cache->Find(args.xid_stream, args.xid_seq, args.procedure, &entry);
  }
  const std::span<std::byte> out = call.out();
  const size_t size = wire::kHeaderSize + entry.body.size();
  if (status == DafsStatus::kOk && size > out.size()) status = DafsStatus::kTooSmall;
  if (status != DafsStatus::kOk) return call.FinishError(status);
  if (!entry.body.empty()) {
    std::memcpy(out.data() + wire::kHeaderSize, entry.body.data(), entry.body.size());
  }
  call.FinishStored(entry.status, size);
}

// 6.3.3.
DafsStatus DiscardResponses(Call& call, const wire::DiscardResponsesArgs& args,
                            wire::DiscardResponsesRes*) {
  std::shared_ptr<SessionCache> cache;
  const DafsStatus status = FindResponses(call, args.session_id, &cache);
  if (status != DafsStatus::kOk) return status;
  if (cache->has_unsettled()) return DafsStatus::kDelay;
  call.session().store().grace().Discarded(args.session_id);
  call.session().shared().responses->Discard(*cache);
  return DafsStatus::kOk;
}

}  // namespace

constexpr Procedure kCheckResponseHandler = kAtOnce<CheckResponse>;
constexpr Procedure kFetchResponseHandler = {.run = FetchResponse};
constexpr Procedure kDiscardResponsesHandler = kAtOnce<DiscardResponses>;

}  // namespace dafs::server
