// Construction and shutdown of a worker's Files. Spec: 6.2.6 (DISCONNECT).
#include "client/files/files.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "client/exchange/report.h"
#include "client/files/shared/session_observer.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/commit_schedule.h"
#include "client/recovery/committer.h"
#include "client/recovery/reclaim.h"
#include "client/recovery/request_executor.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
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
      buffers_(std::move(buffers)),
      session_keeper_(std::make_unique<SessionKeeper>(client, loop, buffers_.get(),
                                                      client.options().server_name)),
      executor_(std::make_unique<RequestExecutor>(client, loop, *session_keeper_)),
      committer_(std::make_unique<Committer>(*executor_)),
      schedule_(std::make_unique<CommitSchedule>(*committer_, client.uncommitted(), loop)),
      reclaim_(std::make_unique<Reclaim>(*executor_, *committer_)),
      transfers_(client, *buffers_, *session_keeper_),
      context_{client, loop, *buffers_, *session_keeper_, *executor_, *committer_, transfers_},
      delegating_(context_),
      attributes_(context_),
      locks_(context_, delegating_),
      opens_(context_, locks_, attributes_, delegating_),
      names_(context_, opens_, delegating_),
      directories_(context_),
      data_(context_),
      commits_(context_, *schedule_),
      ranges_(context_),
      xattrs_(context_, opens_),
      acls_(context_),
      fencing_(context_) {
  buffers_->ReturnBy(loop);
  // Called during the connection's set-up: nothing here waits.
  session_keeper_->OnChange(
      [this](Session& session) {
        const Negotiated& negotiated = session.negotiated();
        client_.sessions().Established({negotiated.session_id, negotiated.auth});
        client_.opens().SetClient(negotiated.client_id);
        executor_->SessionReady();
        for (SessionObserver* observer : observers_) observer->SessionReady(session);
        reclaim_->SessionReady(session);
      },
      [this](Session& session) {
        executor_->SessionLost(session.negotiated().session_id);
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
  if (Session* session = session_keeper_->session()) observer.SessionReady(*session);
}

void Files::StopObserving(SessionObserver& observer) { std::erase(observers_, &observer); }

Files::RequestCoalescing::RequestCoalescing(Files& files, bool wanted)
    : executor_(*files.executor_), before_(executor_.Coalesce(wanted)) {}

Files::RequestCoalescing::~RequestCoalescing() { executor_.Coalesce(before_); }

void Files::Shutdown() {
  session_keeper_->Shutdown();
  schedule_->Shutdown();
  for (SessionObserver* observer : observers_) observer->Shutdown();
  executor_->Shutdown();
  reclaim_->Shutdown();
  locks_.EndWaits(absl::CancelledError("the mount ends"));
  buffers_->Close();
}

Task<absl::Status> Files::Connect() { return session_keeper_->ConnectOnce(); }

Task<void> Files::Disconnect() {
  // Returns all delegations, so that no other client waits for them, and commits the remaining
  // data, if the server is reachable.
  client_.delegations().returns().EndAll();
  delegating_.ReturnDue();
  schedule_->CommitSoon();
  schedule_->CommitAll(nullptr);
  const absl::Time end = Loop::Now() + absl::Seconds(2);
  while (
      session_keeper_->session() != nullptr && Loop::Now() < end &&
      (!schedule_->empty() || !client_.uncommitted().Files().empty() || delegating_.returning())) {
    Task<absl::Status> pause = session_keeper_->Pause(absl::Milliseconds(5));
    if (!(co_await pause).ok()) break;
  }
  Task<void> task = session_keeper_->Disconnect(absl::Seconds(2));
  co_await task;
  Shutdown();
}

WorkerReport Files::Report() const {
  WorkerReport report;
  session_keeper_->Fill(report);
  report.buffers = buffers_->counts();
  executor_->Fill(report);
  if (add_to_report_) add_to_report_(report);
  return report;
}

OperationClock& Files::operation_clock() { return executor_->operation_clock(); }

absl::Duration Files::DisconnectedFor() const {
  if (session_keeper_->session() != nullptr) return absl::ZeroDuration();
  return Loop::Now() - session_keeper_->lost_at();
}

Task<absl::Status> Files::Null() {
  Call<wire::NullArgs> call;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = executor_->RunAll(nullptr, chain, "null");
  absl::Status status = co_await task;
  co_return status;
}

}  // namespace dafs::client
