// Handles batch items that the server has: reports, HURRY_UP, and the end of a session. Spec:
// 4.2.3, 5.2.3, 6.5.16, 6.6.2.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/batch/call.h"
#include "client/files/files.h"
#include "client/recovery/operation.h"
#include "client/recovery/runner.h"
#include "client/session/connection.h"
#include "client/session/session.h"
#include "runtime/log.h"
#include "wire/protocol/status.h"

namespace dafs::client {

using wire::DafsStatus;

namespace {

// Limits on the retries of a refused item.
constexpr int kMostReclaims = 8;
constexpr int kMostDamaged = 8;

}  // namespace

// ---- Reports -----------------------------------------------------------------------------------

void Batches::OnBatchCompletion(const std::vector<wire::CompletionNotification>& completions) {
  ++counts_.reported;
  last_heard_ = Loop::Now();
  throttled_ = false;
  for (const wire::CompletionNotification& done : completions) {
    const auto entry = entries_.find(done.request_id);
    // The report may arrive before the reply to BATCH_SUBMIT, which uses another channel.
    if (entry == entries_.end() ||
        (entry->second->state != State::kSending && entry->second->state != State::kAccepted)) {
      LogWarning(absl::StrCat(connection_.name(), ": the server reported a result of request ",
                              done.request_id,
                              " of a batch, which is not outstanding; the report is ignored"));
      continue;
    }
    const EntryRef held = entry->second;
    Take(held, done);
  }
  breath_.WakeAll(absl::OkStatus());
}

void Batches::Take(const EntryRef& entry, const wire::CompletionNotification& done) {
  if (!entry->windows.empty()) {
    // The server can still change the data, so it is not checked yet.
    return AfterWindows(entry, [this, held = entry, done] { Take(held, done); });
  }
  absl::Status status;
  switch (Judge(*entry, done, &status)) {
    case Verdict::kEnd:
      if (status.ok()) ForgetWritten(*entry, done.bytes_transferred);
      return End(entry, std::move(status), done.bytes_transferred);
    case Verdict::kAgain:
      return Requeue(entry);
    case Verdict::kLater:
      return RequeueLater(entry);
  }
}

// The data is stable. It replaces kept unstable writes to the same range.
void Batches::ForgetWritten(const Entry& entry, uint32_t bytes) const {
  if (entry.item.rw_flag != wire::RwFlag::kWrite) return;
  for (const wire::FileChunk& chunk : entry.item.chunks) {
    const uint32_t written = std::min(bytes, chunk.byte_count);
    if (written == 0) continue;
    client_.uncommitted().Forget(entry.item.file, chunk.offset, chunk.offset + written);
    bytes -= written;
  }
}

// Evaluates one report. *why: the result of the item.
Batches::Verdict Batches::Judge(Entry& entry, const wire::CompletionNotification& done,
                                absl::Status* why) {
  const auto status = static_cast<DafsStatus>(done.status);
  const BatchItem& item = entry.item;
  *why = wire::StatusFromDafs(status, "batch");
  switch (status) {
    case DafsStatus::kOk:
      if (done.bytes_transferred > item.data->size()) {
        *why = absl::DataLossError(absl::StrCat("batch: ", done.bytes_transferred, " bytes of ",
                                                item.data->size(), " requested"));
        return Verdict::kEnd;
      }
      if (client_.options().checksums && item.rw_flag == wire::RwFlag::kRead &&
          item.data->Checksum(done.bytes_transferred, client_.options().byte_order) !=
              done.direct_checksum) {
        *why = absl::DataLossError("batch: data with a wrong checksum");
        return ++entry.damaged <= kMostDamaged ? Verdict::kAgain : Verdict::kEnd;
      }
      return Verdict::kEnd;
    case DafsStatus::kDelay:
    case DafsStatus::kGrace:
      return Verdict::kLater;
    case DafsStatus::kChksum:
      return ++entry.damaged <= kMostDamaged ? Verdict::kAgain : Verdict::kEnd;
    case DafsStatus::kStaleStateId:  // not executed; the server lost the open, or the client state
    case DafsStatus::kOldStateId:
    case DafsStatus::kBadStateId:
    case DafsStatus::kExpired:
      if (item.state_id.is_zero() || ++entry.reclaims > kMostReclaims) return Verdict::kEnd;
      client_.opens().Forgotten(item.state_id, entry.state_id);
      return Verdict::kAgain;
    default:
      return Verdict::kEnd;
  }
}

// ---- Haste -------------------------------------------------------------------------------------

Task<absl::Status> Batches::HurryUp(uint64_t request_id) {
  const auto at = entries_.find(request_id);
  if (at == entries_.end()) co_return absl::NotFoundError("batch: the result has arrived");
  const EntryRef entry = at->second;
  entry->hurried = true;  // applies also when another session sends it
  if (entry->state != State::kAccepted) {
    std::deque<EntryRef>& todo = entry->group->queue->todo;
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
  Session* session = connection_.session();
  if (session == nullptr) co_return absl::OkStatus();
  Call<wire::HurryUpArgs> hurry;
  hurry.args.request_id = request_id;
  CallBase* const chain[] = {&hurry};
  Task<absl::Status> task = session->Run(wire::CredHandle(), chain, runner_.DeadlineFromNow());
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

Task<absl::Status> Batches::WantCompletions(uint32_t num_completions) {
  wanted_completions_ = num_completions;
  BatchCall call(*this, {});
  call.args.num_completions = num_completions;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(nullptr, chain, "batch");
  absl::Status status = co_await task;
  co_return status;
}

// ---- Sessions ----------------------------------------------------------------------------------

void Batches::SessionReady(Session& session) {
  session.OnDirective(this);
  StartPump();
}

// 5.2.3: sends unreported items again, in the original order.
void Batches::SessionLost() {
  throttled_ = false;
  windows_out_ = 0;
  std::vector<EntryRef> out;
  for (const auto& [id, entry] : entries_) {
    entry->windows.clear();  // they ended with the session
    if (entry->state == State::kAccepted || entry->state == State::kClosing) out.push_back(entry);
  }
  std::sort(out.begin(), out.end(),
            [](const EntryRef& a, const EntryRef& b) { return a->id > b->id; });
  for (const EntryRef& entry : out) {
    if (entry->state == State::kClosing) std::exchange(entry->then, nullptr)();
    if (entry->state != State::kAccepted) continue;
    if (!entry->timed_out.ok()) {
      End(entry, entry->timed_out);
      continue;
    }
    ++counts_.reissued;
    Requeue(entry);
  }
  breath_.WakeAll(absl::OkStatus());
}

// A session detects a silent server only while a request is outstanding. An accepted item is no
// outstanding request, so a NULL request is sent from time to time.
void Batches::Watch() {
  if (watch_timer_ != 0 || accepted_ == 0 || shut_down_) return;
  const ClientOptions& options = client_.options();
  absl::Duration period = options.silence / 2;
  if (options.soft) period = std::min(period, options.timeout / 4);
  last_heard_ = std::max(last_heard_, Loop::Now() - period);
  watch_timer_ = loop_.RunAfter(std::max(period, absl::Milliseconds(1)), [this] {
    watch_timer_ = 0;
    const absl::Time now = Loop::Now();
    bool late = false;
    for (const auto& [id, entry] : entries_) {
      if (entry->state != State::kAccepted || now < entry->group->deadline) continue;
      entry->timed_out = absl::DeadlineExceededError("batch: no result in time");
      late = true;
    }
    Session* session = connection_.session();
    if (late && session != nullptr) {
      session->GiveUp(absl::UnavailableError("batch: no result in time"));
    } else if (accepted_ > 0 && !probing_ && now - last_heard_ >= client_.options().silence / 2) {
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
  breath_.WakeAll(why);
  while (!entries_.empty()) {
    const EntryRef entry = entries_.begin()->second;
    entry->windows.clear();  // there is no session
    entry->then = nullptr;
    End(entry, why);
  }
  queue_->todo.clear();  // items hold their queue
}

}  // namespace dafs::client
