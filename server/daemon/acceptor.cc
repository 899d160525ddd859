#include "server/daemon/acceptor.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/session/connection/peer.h"
#include "server/session/shared/pool.h"
#include "server/session/shared/refusal_log.h"
#include "server/store/parts/export_directories.h"
#include "server/store/parts/releases.h"

namespace dafs::server {
namespace {

// Pause of a listener after a failure (no descriptors, say), which would otherwise repeat at once.
constexpr absl::Duration kRest = absl::Milliseconds(200);
// Minimum interval between log lines about failures of a listener.
constexpr absl::Duration kLogEvery = absl::Seconds(10);
constexpr int kAcceptsPerTurn = 16;
// Within this time the server frees the space of a file that a local program removed, unless the
// file is open. It takes longer while the pool is busy.
constexpr absl::Duration kForgetWithin = absl::Seconds(30);

}  // namespace

// One listener in the acceptor's loop.
class Acceptor::Source final : public Pollable {
 public:
  Source(Acceptor& acceptor, std::unique_ptr<dat::Listener> listener)
      : acceptor_(acceptor), listener_(std::move(listener)) {}

  bool Poll() override {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> pending = listener_->Next();
      if (!pending.ok()) {
        Rest(pending.status());
        return true;
      }
      if (std::exchange(said_failing_, false)) {
        LogNotice(absl::StrCat("listening on ", listener_->local().ToString(), " again"));
      }
      if (*pending == nullptr) return i > 0;
      acceptor_.Take(*std::move(pending));
    }
    return true;
  }

  WaitHandle Arm() override { return listener_->Arm(); }

 private:
  void Rest(const absl::Status& why) {
    const absl::Time now = Loop::Now();
    if (now - last_said_ >= kLogEvery) {
      last_said_ = now;
      said_failing_ = true;
      LogWarning(
          absl::StrCat("listening on ", listener_->local().ToString(), ": ", why.ToString()));
    }
    for (const auto& worker : acceptor_.workers_) worker->DropUnusedDomains();
    acceptor_.loop_->Remove(this);
    acceptor_.loop_->RunAfter(kRest, [this] { acceptor_.loop_->Add(this); });
  }

  Acceptor& acceptor_;
  std::unique_ptr<dat::Listener> listener_;
  bool said_failing_ = false;
  absl::Time last_said_ = absl::InfinitePast();
};

Acceptor::Acceptor(const Shared& shared, std::span<const std::unique_ptr<Worker>> workers)
    : shared_(shared), workers_(workers) {}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(
    const Shared& shared, std::span<const std::unique_ptr<Worker>> workers,
    std::vector<std::unique_ptr<dat::Listener>> listeners) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(shared, workers));
  // Connections need no low latency: the loop does not spin, which would compete with the workers.
  ASSIGN_OR_RETURN(acceptor->loop_, Loop::Create({.max_spin = absl::ZeroDuration()}));
  for (auto& listener : listeners) {
    acceptor->sources_.push_back(std::make_unique<Source>(*acceptor, std::move(listener)));
    acceptor->loop_->Add(acceptor->sources_.back().get());
  }
  acceptor->ExpireLeases();
  acceptor->ForgetRemoved();
  acceptor->thread_ = std::thread([a = acceptor.get()] { a->loop_->Run(); });
  return acceptor;
}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  loop_->Stop();
  thread_.join();
  for (auto& source : sources_) loop_->Remove(source.get());
}

void Acceptor::Take(std::unique_ptr<dat::PendingEndpoint> pending) {
  const Peer peer = PeerOf(pending->peer(), pending->tls_peer());
  const ExportSet& exports = shared_.store->exports();
  // A client that no export admits yet may authenticate by Kerberos or a password.
  const bool may_be_admitted =
      IsAdmitted(exports, peer) ||
      (shared_.options->acceptor != nullptr && MayBeAdmittedByKerberos(exports, peer)) ||
      (shared_.passwords != nullptr && MayBeAdmittedByPassword(exports, peer));
  SessionTable::Place place = SessionTable::PlaceOf(peer.address, may_be_admitted);
  absl::Status admitted = shared_.sessions->Admit(place);
  if (!admitted.ok()) {
    if (!shared_.refusals->Admits(place.host, "limit", Loop::Now())) return;
    return LogWarning(absl::StrCat("connection from ", pending->peer().ToString(),
                                   " refused: ", admitted.message()));
  }
  const std::string host(peer.address.bytes.begin(), peer.address.bytes.end());
  Worker& worker = *workers_[WorkerFor(*pending, host)];
  worker.Adopt(std::move(pending), std::move(place));
}

size_t Acceptor::WorkerFor(const dat::PendingEndpoint& pending, const std::string& host) {
  const std::optional<ChannelRoutes::Request> request =
      ChannelRoutes::Read(host, pending.peer_private_data());
  // Missing private data is not an error (WIRE 11.1). Connections of one host without private data
  // go to one worker, as do those with the same data.
  const size_t of_host = absl::HashOf(host) % workers_.size();
  if (!request) return of_host;
  if (const std::optional<size_t> worker = routes_.Find(request->session)) return *worker;
  if (!request->operation) return of_host;
  auto least = std::min_element(workers_.begin(), workers_.end(), [](const auto& a, const auto& b) {
    return a->sessions() < b->sessions();
  });
  const auto index = static_cast<size_t>(least - workers_.begin());
  routes_.Remember(request->session, index);
  return index;
}

void Acceptor::ExpireLeases() {
  for (const wire::ClientId& client_id : shared_.clients->Expire(Loop::Now())) {
    shared_.chores->Submit(
        [store = shared_.store, client_id] { store->releases().ExpireClient(client_id); });
  }
  shared_.responses->Expire(Loop::Now());
  shared_.chores->Submit([store = shared_.store] { store->EndGrace(Loop::Now()); });
  shared_.chores->Submit([store = shared_.store] { store->directories().FollowPaths(); });
  loop_->RunAfter(std::min(shared_.options->lease_time / 8, absl::Seconds(5)),
                  [this] { ExpireLeases(); });
}

void Acceptor::ForgetRemoved() {
  shared_.pool->SubmitIdly([store = shared_.store] { store->ForgetRemoved(); });
  loop_->RunAfter(kForgetWithin / Store::kForgetCalls, [this] { ForgetRemoved(); });
}

}  // namespace dafs::server
