// Sends the items of batches, as many in a request as fit, and handles the reply. Spec: 4.2.3,
// 6.5.5; WIRE 4.2, 4.3, 9.4.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/batch/batch.h"
#include "client/batch/call.h"
#include "client/batch/judgement.h"
#include "client/files/files.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/committer.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/status_macros.h"
#include "wire/protocol/limits.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

// Sizes of a BATCH_SUBMIT message and of its response, WIRE 4.2, 4.3, 9.4.
constexpr size_t kRequestBytes = 64;  // header, fixed section, count of the requests
constexpr size_t kItemBytes = 96;
constexpr size_t kResponseBytes = 56;
constexpr size_t kCompletionBytes = 24;
size_t ListBytes(size_t count) { return count == 0 ? 0 : 8 + 16 * count; }

uint32_t Microseconds(absl::Duration window) {
  const int64_t us = absl::ToInt64Microseconds(window);
  return static_cast<uint32_t>(std::clamp<int64_t>(us, 0, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

void Batches::StartPump() {
  if (pumping_ || pump_timer_ != 0 || shut_down_ || queue_->todo.empty()) return;
  // Deferred: a sink must not be called from inside Submit.
  pump_timer_ = loop_.RunAfter(absl::ZeroDuration(), [this] {
    pump_timer_ = 0;
    if (pumping_) return;
    pumping_ = true;
    Start(Pump());
  });
}

Task<void> Batches::Pump() {
  while (!queue_->todo.empty() && !shut_down_) {
    Task<absl::Status> sending = SendFront(*queue_);
    absl::Status sent = co_await sending;
    if (absl::IsCancelled(sent)) break;
  }
  pumping_ = false;
}

// 4.2.3: after WHOA_COWBOY nothing is submitted until an item is reported. Spec gap: if this
// session has no accepted items, no report can come; then a pause replaces it.
Task<absl::Status> Batches::AwaitSubmit(BatchQueue& queue, absl::Time deadline) {
  while ((throttled_ || LacksWindows(queue)) && !shut_down_) {
    if (entries_.accepted() > 0 || LacksWindows(queue)) {
      absl::Status woken = co_await submit_waiters_.Wait(deadline);
      CO_RETURN_IF_ERROR(woken);
      continue;
    }
    Task<absl::Status> pause = session_keeper_.Pause(throttle_delay_.next());
    CO_RETURN_IF_ERROR(co_await pause);
    throttle_delay_.Grow();
    if (entries_.accepted() == 0) throttled_ = false;
  }
  co_return shut_down_ ? ClientEnds() : absl::OkStatus();
}

// Whether the first item must wait for the windows of other items.
bool Batches::LacksWindows(const BatchQueue& queue) const {
  const Session* session = session_keeper_.session();
  if (session == nullptr || !session->by_windows() || entries_.windows_out() == 0) return false;
  const auto first =
      std::find_if(queue.todo.begin(), queue.todo.end(),
                   [](const BatchEntryRef& entry) { return entry->state == BatchState::kQueued; });
  return first != queue.todo.end() &&
         entries_.windows_out() + (*first)->item.data->buffers() > RemoteAccess::kMostOfBatches;
}

// Takes the items, from the front on, that fit into one message: of one user, with the same
// options.
std::vector<BatchEntryRef> Batches::TakeFront(BatchQueue& queue, const Session& session,
                                              bool synchronous) {
  std::vector<BatchEntryRef> taken;
  size_t request = kRequestBytes;
  size_t response = kResponseBytes;
  size_t windows = entries_.windows_out();
  while (!queue.todo.empty() && taken.size() < wire::kBatchMax) {
    const BatchEntryRef entry = queue.todo.front();
    if (entry->state != BatchState::kQueued) {  // ended meanwhile
      queue.todo.pop_front();
      continue;
    }
    if (absl::Status loss = LossOf(client_, *entry); !loss.ok()) {
      queue.todo.pop_front();  // before End: the sink may submit others
      entries_.End(entry, std::move(loss));
      continue;
    }
    if (OverlapsKept(client_, *entry)) break;  // SendFront commits first
    const BatchGroup& first = taken.empty() ? *entry->group : *taken.front()->group;
    const BatchGroup& group = *entry->group;
    const bool alike = &group == &first ||
                       (group.user == first.user && group.options.window == first.options.window &&
                        group.options.num_completions == first.options.num_completions);
    if (!alike || (!taken.empty() && entry->hurried != taken.front()->hurried)) break;
    const size_t buffers = entry->item.data->buffers();
    if (session.by_windows() && windows > 0 && windows + buffers > RemoteAccess::kMostOfBatches)
      break;
    windows += buffers;
    request += kItemBytes + ListBytes(entry->item.chunks.size()) + ListBytes(buffers);
    if (synchronous) response += kCompletionBytes;
    if (request > session.negotiated().max_request_size ||
        response > session.negotiated().max_response_size || buffers > wire::kBuffersMax) {
      if (!taken.empty()) break;
      queue.todo.pop_front();
      entries_.End(entry, absl::InvalidArgumentError(absl::StrCat(
                              "batch: an item with ", entry->item.chunks.size(), " chunks and ",
                              buffers, " buffers does not fit in a request of ",
                              session.negotiated().max_request_size, " bytes")));
      return taken;
    }
    queue.todo.pop_front();
    entries_.SetState(*entry, BatchState::kSending);
    taken.push_back(entry);
  }
  return taken;
}

// Once only: the order of the batch and of later writes to the same range is undefined (4.2.3-01).
Task<absl::Status> Batches::CommitOverlapped(BatchEntryRef entry) {
  const std::shared_ptr<BatchGroup> group = entry->group;
  entry->overlap_committed = true;
  Task<absl::StatusOr<wire::Verifier>> committing =
      committer_.CommitAll(group->user, entry->item.file, 0, 0);
  absl::StatusOr<wire::Verifier> committed = co_await committing;
  if (absl::IsCancelled(committed.status())) co_return committed.status();
  if (!committed.ok() && entry->state == BatchState::kQueued)
    entries_.End(entry, committed.status());
  co_return absl::OkStatus();
}

Task<absl::Status> Batches::SendFront(BatchQueue& queue) {
  if (const BatchEntryRef front = queue.todo.front();
      front->state == BatchState::kQueued && OverlapsKept(client_, *front)) {
    Task<absl::Status> committing = CommitOverlapped(front);
    absl::Status committed = co_await committing;
    co_return committed;
  }
  const absl::Time deadline = queue.todo.front()->group->deadline;
  Task<absl::Status> submit = AwaitSubmit(queue, deadline);
  absl::Status status = co_await submit;
  Session* session = nullptr;
  if (status.ok()) {
    Task<absl::StatusOr<Session*>> waiting = session_keeper_.Ready(deadline);
    absl::StatusOr<Session*> ready = co_await waiting;
    status = ready.status();
    if (ready.ok()) session = *ready;
  }
  if (!status.ok()) {
    if (absl::IsDeadlineExceeded(status)) {  // soft: for items past their deadline
      const absl::Time now = Loop::Now();
      std::vector<BatchEntryRef> late;
      std::erase_if(queue.todo, [&](const BatchEntryRef& entry) {
        if (entry->group->deadline > now) return false;
        late.push_back(entry);
        return true;
      });
      for (const BatchEntryRef& entry : late) {
        if (entry->state == BatchState::kQueued) entries_.End(entry, status);
      }
    }
    co_return status;
  }
  const bool synchronous = queue.synchronous || !session->back_control_bound();
  BatchCall call(entries_, buffers_.remote_access(), TakeFront(queue, *session, synchronous));
  if (call.entries().empty()) co_return absl::OkStatus();
  const BatchEntry& first = *call.entries().front();
  const std::shared_ptr<BatchGroup> group = first.group;  // keeps it until the reply
  call.args.synchronous = synchronous;
  if (!synchronous) {
    if (group->options.num_completions != 0) wanted_completions_ = group->options.num_completions;
    call.args.usec_window = first.hurried ? 0 : Microseconds(group->options.window);
    call.args.num_completions = wanted_completions_;
  }
  CallBase* const chain[] = {&call};
  Task<absl::Status> running = executor_.Run(&group->user, chain);
  status = co_await running;
  if (!status.ok()) {
    Failed(call, status);
  } else {
    Answered(call);
  }
  co_return status;
}

// The outcome of the call is unknown; its items may still be at the server.
void Batches::Failed(const BatchCall& call, const absl::Status& status) {
  Session* session = session_keeper_.session();
  const bool out = absl::IsDeadlineExceeded(status) && call.sent && !call.answered &&
                   session != nullptr && session->negotiated().session_id == call.xid.session_id;
  bool ended = false;
  if (!out) {
    for (const BatchEntryRef& entry : call.entries()) {
      absl::Status loss =
          entry->state == BatchState::kSending ? LossOf(client_, *entry) : absl::OkStatus();
      if (loss.ok()) continue;
      entries_.End(entry, std::move(loss));
      ended = true;
    }
  }
  for (const BatchEntryRef& entry : call.entries()) {
    if (entry->state != BatchState::kSending) continue;
    if (out) {
      entry->timed_out = status;
      entries_.SetState(*entry, BatchState::kAccepted);
    } else if (ended && !shut_down_) {
      entries_.AfterWindows(entry, [this, held = entry] { Requeue(held); });  // another item failed
    } else {
      entries_.End(entry, status);
    }
  }
  // The server may still access the memory; that stops when the session ends.
  if (out) session->GiveUp(absl::UnavailableError(absl::StrCat("batch: ", status.message())));
}

void Batches::Answered(BatchCall& call) {
  const std::vector<BatchEntryRef>& entries = call.entries();
  if (call.status == DafsStatus::kWhoaCowboy) {
    ++counts_.throttled;
    throttled_ = true;
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      if ((*entry)->state != BatchState::kSending) continue;
      entries_.AfterWindows(*entry, [this, held = *entry] { Requeue(held); });
    }
    return;
  }
  const Session* session = session_keeper_.session();
  if (!call.ok()) {
    // The previous session had a Back-control Channel, this one has none.
    const bool without = call.status == DafsStatus::kBackChannelUnusable && session != nullptr &&
                         !session->back_control_bound();
    const absl::Status status = StatusOf(call, "batch");
    for (const BatchEntryRef& entry : entries) {
      if (entry->state != BatchState::kSending) continue;
      if (without) {
        entries_.AfterWindows(entry, [this, held = entry] { Requeue(held); });
      } else {
        entries_.End(entry, status);
      }
    }
    return;
  }
  ++counts_.submitted;
  if (call.args.synchronous) {
    for (const wire::CompletionNotification& done : call.res.completions) {
      const BatchEntryRef entry = entries_.Find(done.request_id);
      if (entry != nullptr && entry->state == BatchState::kSending) Take(entry, done);
    }
    for (const BatchEntryRef& entry : entries) {
      if (entry->state == BatchState::kSending) {
        entries_.End(entry, absl::DataLossError("batch: the reply lacks an item"));
      }
    }
    return;
  }
  throttle_delay_.Reset();
  // The session may have ended meanwhile, and with it the items it accepted.
  const bool lives = session != nullptr && session->negotiated().session_id == call.xid.session_id;
  for (const BatchEntryRef& entry : entries) {
    if (entry->state != BatchState::kSending) continue;
    if (!lives) {
      entries_.AfterWindows(entry, [this, held = entry] { Requeue(held); });
      ++counts_.reissued;
      continue;
    }
    entries_.SetState(*entry, BatchState::kAccepted);
    if (entry->hurried && call.args.usec_window != 0) Start(HurryLater(entry->id));
  }
  Watch();
}

}  // namespace dafs::client
