// Handles batch items that the server has: reports, HURRY_UP, and the end of a session. Spec:
// 4.2.3, 5.2.3, 6.5.16, 6.6.2.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/batch/batch.h"
#include "client/batch/call.h"
#include "client/batch/judgement.h"
#include "client/files/files.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/request_executor.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "wire/protocol/status.h"

namespace dafs::client {

using wire::DafsStatus;

// ---- Reports -----------------------------------------------------------------------------------

void Batches::OnBatchCompletion(const std::vector<wire::CompletionNotification>& completions) {
  ++counts_.reported;
  last_heard_ = Loop::Now();
  throttled_ = false;
  for (const wire::CompletionNotification& done : completions) {
    const BatchEntryRef entry = entries_.Find(done.request_id);
    // The report may arrive before the reply to BATCH_SUBMIT, which uses another channel.
    if (entry == nullptr ||
        (entry->state != BatchState::kSending && entry->state != BatchState::kAccepted)) {
      LogWarning(absl::StrCat(session_keeper_.name(), ": the server reported a result of request ",
                              done.request_id,
                              " of a batch, which is not outstanding; the report is ignored"));
      continue;
    }
    Take(entry, done);
  }
  submit_waiters_.WakeAll(absl::OkStatus());
}

void Batches::Take(const BatchEntryRef& entry, const wire::CompletionNotification& done) {
  if (!entry->windows.empty()) {
    // The server can still change the data, so it is not checked yet.
    return entries_.AfterWindows(entry, [this, held = entry, done] { Take(held, done); });
  }
  absl::Status status;
  switch (Judge(client_, *entry, done, &status)) {
    case BatchVerdict::kEnd:
      if (status.ok()) ForgetWritten(client_, *entry, done.bytes_transferred);
      return entries_.End(entry, std::move(status), done.bytes_transferred);
    case BatchVerdict::kAgain:
      return Requeue(entry);
    case BatchVerdict::kLater:
      return RequeueLater(entry);
  }
}

// ---- Haste -------------------------------------------------------------------------------------

Task<absl::Status> Batches::HurryUp(uint64_t request_id) {
  const BatchEntryRef entry = entries_.Find(request_id);
  if (entry == nullptr) co_return absl::NotFoundError("batch: the result has arrived");
  entry->hurried = true;  // applies also when another session sends it
  if (entry->state != BatchState::kAccepted) {
    std::deque<BatchEntryRef>& todo = entry->group->queue->todo;
    const auto queued = std::find(todo.begin(), todo.end(), entry);
    if (queued != todo.end()) {
      todo.erase(queued);
      todo.push_front(entry);
    }
    co_return absl::OkStatus();
  }
  Task<absl::Status> task = SendHurryUp(request_id);
  absl::Status status = co_await task;
  co_return status;
}

// Sent once, on this session only: on the next session the item has no time window.
Task<absl::Status> Batches::SendHurryUp(uint64_t request_id) {
  Session* session = session_keeper_.session();
  if (session == nullptr) co_return absl::OkStatus();
  Call<wire::HurryUpArgs> hurry;
  hurry.args.request_id = request_id;
  CallBase* const chain[] = {&hurry};
  Task<absl::Status> task = session->Run(wire::CredHandle(), chain, executor_.DeadlineFromNow());
  absl::Status status = co_await task;
  if (absl::IsUnavailable(status)) co_return absl::OkStatus();
  if (!status.ok()) co_return status;
  if (hurry.status == DafsStatus::kBatchRequestNotFound) {
    co_return absl::NotFoundError("batch: the result has arrived");
  }
  co_return StatusOf(hurry, "hurry up");
}

Task<void> Batches::HurryLater(uint64_t request_id) {
  Task<absl::Status> task = SendHurryUp(request_id);
  absl::Status ignored = co_await task;
}

// ---- Sessions ----------------------------------------------------------------------------------

void Batches::SessionReady(Session& session) {
  session.OnDirective(this);
  StartPump();
}

// 5.2.3: sends unreported items again, in the original order.
void Batches::SessionLost() {
  throttled_ = false;
  entries_.WindowsEndedWithSession();
  std::vector<BatchEntryRef> out;
  for (const auto& [id, entry] : entries_.all()) {
    entry->windows.clear();  // they ended with the session
    if (entry->state == BatchState::kAccepted || entry->state == BatchState::kClosing)
      out.push_back(entry);
  }
  std::sort(out.begin(), out.end(),
            [](const BatchEntryRef& a, const BatchEntryRef& b) { return a->id > b->id; });
  for (const BatchEntryRef& entry : out) {
    if (entry->state == BatchState::kClosing) std::exchange(entry->then, nullptr)();
    if (entry->state != BatchState::kAccepted) continue;
    if (!entry->timed_out.ok()) {
      entries_.End(entry, entry->timed_out);
      continue;
    }
    ++counts_.reissued;
    Requeue(entry);
  }
  submit_waiters_.WakeAll(absl::OkStatus());
}

// A session detects a silent server only while a request is outstanding. An accepted item is no
// outstanding request, so a NULL request is sent from time to time.
void Batches::Watch() {
  if (watch_timer_ != 0 || entries_.accepted() == 0 || shut_down_) return;
  const ClientOptions& options = client_.options();
  absl::Duration period = options.silence / 2;
  if (options.soft) period = std::min(period, options.timeout / 4);
  last_heard_ = std::max(last_heard_, Loop::Now() - period);
  watch_timer_ = loop_.RunAfter(std::max(period, absl::Milliseconds(1)), [this] {
    watch_timer_ = 0;
    const absl::Time now = Loop::Now();
    bool late = false;
    for (const auto& [id, entry] : entries_.all()) {
      if (entry->state != BatchState::kAccepted || now < entry->group->deadline) continue;
      entry->timed_out = absl::DeadlineExceededError("batch: no result in time");
      late = true;
    }
    Session* session = session_keeper_.session();
    if (late && session != nullptr) {
      session->GiveUp(absl::UnavailableError("batch: no result in time"));
    } else if (entries_.accepted() > 0 && !probing_ &&
               now - last_heard_ >= client_.options().silence / 2) {
      probing_ = true;
      Start(Probe());
    }
    Watch();
  });
}

Task<void> Batches::Probe() {
  Task<absl::Status> task = files_.Null();
  absl::Status ignored = co_await task;
  probing_ = false;
}

void Batches::Shutdown() {
  if (std::exchange(shut_down_, true)) return;
  loop_.Cancel(std::exchange(pump_timer_, 0));
  loop_.Cancel(std::exchange(watch_timer_, 0));
  const absl::Status why = absl::CancelledError("the client ends");
  submit_waiters_.WakeAll(why);
  while (!entries_.all().empty()) {
    const BatchEntryRef entry = entries_.all().begin()->second;
    entry->windows.clear();  // there is no session
    entry->then = nullptr;
    entries_.End(entry, why);
  }
  queue_->todo.clear();  // items hold their queue
}

}  // namespace dafs::client
