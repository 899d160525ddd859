#include "client/recovery/response_caches.h"

#include <cstddef>
#include <utility>

#include "absl/time/time.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

// Caches that wait to be discarded. More accumulate only if the server refuses to discard.
constexpr size_t kMostUseless = 64;
constexpr int kMostDiscards = 60;  // tries for one cache
constexpr absl::Duration kDiscardPause = absl::Seconds(2);

}  // namespace

ResponseCaches::Claim::Claim(ResponseCaches& caches, std::span<CallBase* const> chain)
    : caches_(caches) {
  for (const CallBase* call : chain) {
    if (!call->is_out() || !call->xid.cached) continue;
    session_id_ = call->xid.session_id;  // all members of a chain are sent on one session
    ++caches_.claims_[session_id_];
    claimed_ = true;
    return;
  }
}

ResponseCaches::Claim::~Claim() {
  if (!claimed_ || --caches_.claims_[session_id_] > 0) return;
  caches_.claims_.erase(session_id_);
  if (std::erase(caches_.lost_, session_id_) == 0) return;
  caches_.useless_.push_back(session_id_);
  caches_.StartDiscard();
}

void ResponseCaches::SessionLost(const wire::SessionId& session_id) {
  if (useless_.size() >= kMostUseless) {
    client_.sessions().Ended(useless_.front());
    useless_.erase(useless_.begin());
  }
  (claims_.contains(session_id) ? lost_ : useless_).push_back(session_id);
}

void ResponseCaches::StartDiscard() {
  if (discarding_ || useless_.empty() || session_keeper_.session() == nullptr) return;
  discarding_ = true;
  Start(Discard());
}

Task<void> ResponseCaches::Discard() {
  int tries = 0;
  while (!useless_.empty()) {
    Session* session = session_keeper_.session();
    if (session == nullptr) break;  // the next SessionReady starts Discard again
    Call<wire::DiscardResponsesArgs> discard;
    discard.args.session_id = useless_.back();
    CallBase* const chain[] = {&discard};
    Task<absl::Status> task =
        session->Run(wire::CredHandle(), chain, Loop::Now() + client_.options().silence);
    absl::Status status = co_await task;
    // If the server cannot discard the cache now, it drops it with the client's next instance or on
    // expiry.
    if (!status.ok()) break;
    // BAD_SESSION: the server has not noticed the end of the old session.
    const bool later =
        discard.status == DafsStatus::kBadSession || discard.status == DafsStatus::kDelay;
    if (later && ++tries < kMostDiscards) {
      Task<absl::Status> pause = session_keeper_.Pause(kDiscardPause);
      if (!(co_await pause).ok()) break;
      continue;
    }
    if (!later) client_.sessions().Ended(discard.args.session_id);
    tries = 0;
    std::erase(useless_, discard.args.session_id);
  }
  discarding_ = false;
}

}  // namespace dafs::client
