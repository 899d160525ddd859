// Queries of the Response Cache of a lost session: CHECK_RESPONSE, FETCH_RESPONSE,
// DISCARD_RESPONSES.
// Spec: 5.2.5, 6.3; WIRE 9.4, R49, R50. They need no credentials but the session's (5.2.5).
#include <cstring>
#include <memory>

#include "server/procedures/procedures.h"
#include "server/session/session.h"
#include "server/store/holdings/grace.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Finds the cache of a lost session of this client. BAD_SESSION also means a session that is
// connected and has no cache (R50).
DafsStatus FindResponses(Call& call, const wire::SessionId& session_id,
                         std::shared_ptr<SessionCache>* cache) {
  Session& session = call.session();
  const DafsStatus status = session.shared().responses->Find(
      session_id, session.identity().AsCacheOwner(), call.order(), cache);
  if (status != DafsStatus::kUnknownSession) return status;
  return session.shared().sessions->Find(session_id).ok() ? DafsStatus::kBadSession : status;
}

}  // namespace

// 6.3.1.
void CheckResponse(Call& call) {
  wire::CheckResponseArgs args;
  if (!call.Decode(args)) return;
  std::shared_ptr<SessionCache> cache;
  DafsStatus status = FindResponses(call, args.session_id, &cache);
  SessionCache::Entry entry;
  if (status == DafsStatus::kOk) {
    status = cache->Find(args.xid_stream, args.xid_seq, args.procedure, &entry);
    if (status != DafsStatus::kDelay) call.session().shared().store->grace().Asked(args.session_id);
  }
  call.Finish(status, args, wire::CheckResponseRes());
}

// 6.3.2. Sends the stored status and result with a new header.
void FetchResponse(Call& call) {
  wire::FetchResponseArgs args;
  if (!call.Decode(args)) return;
  std::shared_ptr<SessionCache> cache;
  DafsStatus status = FindResponses(call, args.session_id, &cache);
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
void DiscardResponses(Call& call) {
  wire::DiscardResponsesArgs args;
  if (!call.Decode(args)) return;
  std::shared_ptr<SessionCache> cache;
  DafsStatus status = FindResponses(call, args.session_id, &cache);
  if (status == DafsStatus::kOk && cache->unsettled().load(std::memory_order_acquire) > 0) {
    status = DafsStatus::kDelay;
  }
  if (status == DafsStatus::kOk) {
    call.session().shared().store->grace().Discarded(args.session_id);
    call.session().shared().responses->Discard(*cache);
  }
  call.Finish(status, args, wire::DiscardResponsesRes());
}

}  // namespace dafs::server
