// Construction and shutdown of a worker's Files. Spec: 6.2.6 (DISCONNECT).
#include "client/files/files.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "client/exchange/report.h"
#include "client/files/shared/session_observer.h"
#include "client/files/shared/worker_parts.h"
#include "client/recovery/calls/operation.h"
#include "client/session/session.h"
#include "client/state/records/session_records.h"
#include "runtime/status_macros.h"

namespace dafs::client {

absl::StatusOr<std::unique_ptr<Files>> Files::Create(Client& client, Loop& loop) {
  BufferPoolOptions options = client.options().buffers;
  options.name = client.options().server_name;
  if (StateRecorder* const recorder = client.recorder()) {
    options.write_memory = [recorder](size_t bytes) { return recorder->TakeMemory(bytes); };
  }
  ASSIGN_OR_RETURN(std::unique_ptr<BufferPool> buffers, BufferPool::Create(options));
  return absl::WrapUnique(new Files(client, loop, std::move(buffers)));
}

Files::Files(Client& client, Loop& loop, std::unique_ptr<BufferPool> buffers)
    : client_(client),
      loop_(loop),
      parts_(std::make_unique<WorkerParts>(client, loop, std::move(buffers))),
      context_(parts_->context),
      delegating_(context_),
      attributes_(context_),
      locks_(context_, delegating_),
      opens_(context_, locks_, attributes_, delegating_),
      names_(context_, opens_, delegating_),
      directories_(context_),
      data_(context_),
      commits_(context_, parts_->schedule),
      ranges_(context_),
      xattrs_(context_, opens_),
      acls_(context_),
      fencing_(context_) {
  parts_->buffers->ReturnBy(loop);
  // Called during the connection's set-up: nothing here waits.
  parts_->session_keeper.OnChange(
      [this](Session& session) {
        const Negotiated& negotiated = session.negotiated();
        client_.sessions().Established({negotiated.session_id, negotiated.auth});
        client_.opens().SetClient(negotiated.client_id);
        parts_->executor.SessionReady();
        for (SessionObserver* observer : observers_) observer->SessionReady(session);
        parts_->reclaim.SessionReady(session);
      },
      [this](Session& session) {
        parts_->executor.SessionLost(session.negotiated().session_id);
        for (SessionObserver* observer : observers_) observer->SessionLost();
      });
  client_.AddWorker(this);
}

Files::~Files() {
  client_.RemoveWorker(this);
  Shutdown();
}

void Files::Observe(SessionObserver& observer) {
  observers_.push_back(&observer);
  if (Session* session = parts_->session_keeper.session()) observer.SessionReady(*session);
}

void Files::StopObserving(SessionObserver& observer) { std::erase(observers_, &observer); }

Files::RequestCoalescing::RequestCoalescing(Files& files, bool wanted)
    : executor_(files.parts_->executor), before_(executor_.Coalesce(wanted)) {}

Files::RequestCoalescing::~RequestCoalescing() { executor_.Coalesce(before_); }

void Files::Shutdown() {
  parts_->session_keeper.Shutdown();
  parts_->schedule.Shutdown();
  for (SessionObserver* observer : observers_) observer->Shutdown();
  parts_->executor.Shutdown();
  parts_->reclaim.Shutdown();
  locks_.EndWaits(absl::CancelledError("the mount ends"));
  parts_->buffers->Close();
}

Task<absl::Status> Files::Connect() { return parts_->session_keeper.ConnectOnce(); }

Task<void> Files::Disconnect() {
  // Returns all delegations, so that no other client waits for them, and commits the remaining
  // data, if the server is reachable.
  client_.delegations().returns().EndAll();
  delegating_.ReturnDue();
  parts_->schedule.CommitSoon();
  parts_->schedule.CommitAll(nullptr);
  const absl::Time end = Loop::Now() + absl::Seconds(2);
  while (parts_->session_keeper.session() != nullptr && Loop::Now() < end &&
         (!parts_->schedule.empty() || !client_.uncommitted().Files().empty() ||
          delegating_.returning())) {
    Task<absl::Status> pause = parts_->session_keeper.Pause(absl::Milliseconds(5));
    if (!(co_await pause).ok()) break;
  }
  Task<void> task = parts_->session_keeper.Disconnect(absl::Seconds(2));
  co_await task;
  Shutdown();
}

WorkerReport Files::Report() const {
  WorkerReport report;
  parts_->session_keeper.Fill(report);
  report.buffers = parts_->buffers->counts();
  parts_->executor.Fill(report);
  if (add_to_report_) add_to_report_(report);
  return report;
}

OperationClock& Files::operation_clock() { return parts_->executor.operation_clock(); }

absl::Duration Files::DisconnectedFor() const {
  if (parts_->session_keeper.session() != nullptr) return absl::ZeroDuration();
  return Loop::Now() - parts_->session_keeper.lost_at();
}

Task<absl::Status> Files::Null() {
  Call<wire::NullArgs> call;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = parts_->executor.RunAll(nullptr, chain, "null");
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
