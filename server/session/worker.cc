#include "server/session/worker.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/session/shared/channel_routes.h"
#include "server/store/holdings/exported_cache.h"
#include "server/store/store.h"

namespace dafs::server {

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const Shared& shared) {
  std::unique_ptr<Worker> worker(new Worker(shared));
  ASSIGN_OR_RETURN(worker->loop_, Loop::Create({.max_spin = shared.options->spin,
                                                .cpu_latency = shared.cpu_latency}));
  ASSIGN_OR_RETURN(worker->direct_buffers_,
                   DirectBuffers::Create(shared.options->direct_memory_bytes,
                                         shared.options->max_transfer_bytes));
  worker->thread_ = std::thread([w = worker.get()] {
    w->loop_->Run();
    w->ended_.Notify();
  });
  return worker;
}

Worker::~Worker() {
  if (thread_.joinable()) thread_.join();
}

bool Worker::AwaitEnd(absl::Time deadline) {
  return ended_.WaitForNotificationWithDeadline(deadline);
}

void Worker::Adopt(std::unique_ptr<dat::PendingEndpoint> pending, SessionTable::Place place) {
  ++count_;
  loop_->Post([this, pending = std::move(pending), place = std::move(place)] {
    absl::Status status =
        stopping_ ? absl::UnavailableError("the server is stopping") : Open(*pending, place);
    if (status.ok()) return;
    LogWarning(absl::StrCat("connection from ", pending->peer().ToString(),
                            " not accepted: ", status.ToString()));
    shared_.sessions->Leave(place);
    --count_;
  });
}

absl::Status Worker::Open(dat::PendingEndpoint& pending, const SessionTable::Place& place) {
  const std::optional<ChannelRoutes::Request> request =
      ChannelRoutes::Read(place.host, pending.peer_private_data());
  std::unique_ptr<Device> own;
  std::unique_ptr<ExportedRegions> exports;
  if (request.has_value() && request->references && shared_.store->exported().on()) {
    // It transfers nothing: a page stands for the memory.
    ASSIGN_OR_RETURN(own, NewDevice(pending, direct_buffers_->slab().first(4096)));
    exports = std::make_unique<ExportedRegions>(*own->domain);
  }
  Device* device = own.get();
  if (device == nullptr) {
    ASSIGN_OR_RETURN(device, DeviceOf(pending));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<dat::Endpoint> endpoint,
      pending.CreateEndpoint(*device->domain, Session::EndpointOptions(*shared_.options)));
  auto session = std::make_unique<Session>(*this, shared_, *device->domain, *device->slab,
                                           std::move(endpoint), place, std::move(exports));
  Session* const adopted = session.get();
  loop_->Add(adopted);
  sessions_.emplace(adopted, Adopted{std::move(own), std::move(session)});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Worker::Device>> Worker::NewDevice(dat::PendingEndpoint& pending,
                                                                  std::span<std::byte> slab) {
  auto device = std::make_unique<Device>();
  ASSIGN_OR_RETURN(device->domain, pending.NewDomain());
  ASSIGN_OR_RETURN(device->slab, device->domain->Register(slab, dat::Access::kLocal));
  return device;
}

absl::StatusOr<Worker::Device*> Worker::DeviceOf(dat::PendingEndpoint& pending) {
  for (auto& device : devices_) {
    if (pending.Fits(*device->domain)) return device.get();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Device> device, NewDevice(pending, direct_buffers_->slab()));
  devices_.push_back(std::move(device));
  return devices_.back().get();
}

Session* Worker::Find(const wire::SessionId& session_id) const {
  for (const auto& [session, owned] : sessions_) {
    if (session->terms().negotiated().session_id == session_id) return session;
  }
  return nullptr;
}

void Worker::EndReferenceChannels() {
  loop_->Post([this] {
    for (const auto& [session, adopted] : sessions_) {
      if (!session->channels().is_for_references()) continue;
      session->Abort(absl::UnavailableError("the exports have changed"));
    }
  });
}

void Worker::EndSuperseded() {
  loop_->Post([this] {
    for (const auto& [session, owned] : sessions_) session->EndIfSuperseded();
  });
}

void Worker::EndSessionsOf(const wire::ClientId& client_id, absl::Status why) {
  loop_->Post([this, client_id, why = std::move(why)] {
    for (const auto& [session, owned] : sessions_) session->EndIfOf(client_id, why);
  });
}

void Worker::EndSession(const wire::SessionId& session_id, const wire::ClientId& client_id,
                        absl::Status why) {
  loop_->Post([this, session_id, client_id, why = std::move(why)] {
    if (Session* const session = Find(session_id)) session->EndIfOf(client_id, why);
  });
}

void Worker::CollectReports(std::function<void(std::vector<SessionReport>)> done) {
  loop_->Post([this, done = std::move(done)] {
    std::vector<SessionReport> reports;
    for (const auto& [session, owned] : sessions_) {
      if (std::optional<SessionReport> report = session->Report()) {
        reports.push_back(*std::move(report));
      }
    }
    done(std::move(reports));
  });
}

void Worker::CollectCounts(std::function<void(WorkerCounts)> done) {
  loop_->Post([this, done = std::move(done)] { done(counts_); });
}

void Worker::CollectBusyFiles(std::function<void(BusyReport)> done) {
  loop_->Post([this, done = std::move(done)] {
    done({.files = busy_files_.Get(), .over = Loop::Now() - busy_since_});
  });
}

void Worker::StartMeasuring() {
  measures_ = true;
  const absl::Time now = Loop::Now();
  busy_since_ = busy_next_since_ = now;
  for (const auto& [session, owned] : sessions_) session->rate().Restart(now, session->traffic());
  loop_->RunAfter(kRecent / 2, [this] { TurnWindows(); });
}

void Worker::TurnWindows() {
  const absl::Time now = Loop::Now();
  busy_files_.Turn();
  busy_since_ = std::exchange(busy_next_since_, now);
  for (const auto& [session, owned] : sessions_) session->rate().Turn(now, session->traffic());
  measures_ = !busy_files_.empty() && !stopping_;  // an idle worker sleeps
  if (measures_) loop_->RunAfter(kRecent / 2, [this] { TurnWindows(); });
}

void Worker::Forget(Session* session) {
  loop_->Post([this, session] {
    if (sessions_.erase(session) == 0) return;
    --count_;
    MaybeStop();
  });
}

void Worker::DropUnusedDomains() {
  loop_->Post([this] {
    std::erase_if(devices_, [this](const std::unique_ptr<Device>& device) {
      return std::none_of(sessions_.begin(), sessions_.end(), [&device](const auto& entry) {
        return &entry.first->connection().domain() == device->domain.get();
      });
    });
  });
}

void Worker::Shutdown() {
  loop_->Post([this] {
    stopping_ = true;
    for (auto& [session, owned] : sessions_) {
      session->Abort(absl::UnavailableError("the server is stopping"));
    }
    MaybeStop();
  });
}

void Worker::MaybeStop() {
  if (stopping_ && sessions_.empty()) loop_->Stop();
}

}  // namespace dafs::server
