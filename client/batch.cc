#include "client/batch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/batch_call.h"
#include "client/committer.h"
#include "client/connection.h"
#include "client/files.h"
#include "client/operation.h"
#include "client/runner.h"
#include "client/session.h"
#include "wire/check.h"
#include "wire/limits.h"
#include "wire/log.h"
#include "wire/status_macros.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

constexpr absl::Duration kThrottleLeast = absl::Milliseconds(1);
constexpr absl::Duration kThrottleMost = absl::Seconds(1);

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

absl::Status Cancelled() { return absl::CancelledError("the client ends"); }

}  // namespace

// ---- The call ----------------------------------------------------------------------------------

std::optional<wire::StateId> BatchCall::NameItems(const Opens& opens,
                                                  const wire::ClientId& client_id) {
  for (const Batches::EntryRef& entry : entries_) {
    if (entry->state != Batches::State::kSending || entry->item.state_id.is_zero()) continue;
    std::optional<wire::StateId> name = opens.StateIdOf(entry->item.state_id, client_id);
    if (!name.has_value()) return entry->item.state_id;
    entry->state_id = *name;
  }
  return std::nullopt;
}

// What was reported meanwhile is not issued again: its memory is its owner's.
absl::StatusOr<size_t> BatchCall::Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                         std::span<std::byte> out, bool checksums) {
  args.requests.clear();
  for (const Batches::EntryRef& entry : entries_) {
    if (entry->state != Batches::State::kSending) continue;
    const BatchItem& item = entry->item;
    wire::RwRequest& request = args.requests.emplace_back();
    request.filehandle = item.file;
    request.request_id = entry->id;
    request.state_id = entry->state_id;
    request.rw_flag = item.rw_flag;
    request.chunks = item.chunks;
    item.data->Advertise(request.request_buffers);
    if (checksums && item.rw_flag == wire::RwFlag::kWrite) {
      request.direct_checksum =
          item.data->Checksum(static_cast<uint32_t>(item.data->size()), order);
    }
  }
  return Call::Encode(header, order, out, checksums);
}

// ---- In ----------------------------------------------------------------------------------------

Batches::Batches(Files& files, Connection& connection, dat::Loop& loop)
    : files_(files),
      connection_(connection),
      loop_(loop),
      queue_(std::make_shared<Queue>(loop, /*is_synchronous=*/false)),
      breath_(loop),
      throttle_delay_(kThrottleLeast) {}

Batches::~Batches() {
  Shutdown();
  DAFS_CHECK(!pumping_ && !probing_, "Shutdown left a batch on its way");
}

absl::Status Batches::Check(std::span<const BatchItem> items) const {
  if (shut_down_) return Cancelled();
  for (const BatchItem& item : items) {
    uint64_t total = 0;
    bool reaches_too_far = false;
    for (const wire::FileChunk& chunk : item.chunks) {
      total += chunk.byte_count;
      reaches_too_far |= chunk.offset > std::numeric_limits<uint64_t>::max() - chunk.byte_count;
    }
    if (reaches_too_far) {
      return absl::InvalidArgumentError("batch: a chunk that ends behind the last offset");
    }
    if (item.chunks.size() > wire::kChunksMax || total > std::numeric_limits<uint32_t>::max() ||
        item.data == nullptr || item.data->size() != total) {
      return absl::InvalidArgumentError(absl::StrCat(
          "batch: an item of ", total, " bytes in ", item.chunks.size(), " chunks, and ",
          item.data == nullptr ? 0 : item.data->size(), " bytes of memory"));
    }
  }
  return absl::OkStatus();
}

Batches::EntryRef Batches::NewEntry(BatchItem item, const std::shared_ptr<Group>& group) {
  auto entry = std::make_shared<Entry>();
  entry->id = ++last_id_;
  entry->item = std::move(item);
  entry->group = group;
  entries_.emplace(entry->id, entry);
  group->queue->todo.push_back(entry);
  return entry;
}

absl::StatusOr<uint64_t> Batches::Submit(const Identity& who, std::vector<BatchItem> items,
                                         const BatchOptions& options, BatchSink& sink) {
  RETURN_IF_ERROR(Check(items));
  auto group = std::make_shared<Group>();
  *group = {who, options, &sink, queue_, files_.runner_->DeadlineFromNow()};
  const uint64_t first = last_id_ + 1;
  for (BatchItem& item : items) NewEntry(std::move(item), group);
  StartPump();
  return first;
}

namespace {

// The sink of Run.
struct Collected final : BatchSink {
  explicit Collected(size_t count) : results(count), left(count) {}
  void OnBatchDone(uint64_t cookie, const BatchResult& result) override {
    results[cookie] = result;
    --left;
  }
  std::vector<BatchResult> results;
  size_t left;
};

}  // namespace

dat::Task<absl::StatusOr<std::vector<BatchResult>>> Batches::Run(const Identity& who,
                                                                 std::span<const BatchItem> items) {
  CO_RETURN_IF_ERROR(Check(items));
  Collected collected(items.size());
  auto queue = std::make_shared<Queue>(loop_, /*is_synchronous=*/true);
  auto group = std::make_shared<Group>();
  *group = {who, BatchOptions(), &collected, queue, files_.runner_->DeadlineFromNow()};
  for (size_t i = 0; i < items.size(); ++i) {
    BatchItem item = items[i];
    item.cookie = i;
    NewEntry(std::move(item), group);
  }
  while (collected.left > 0) {
    if (queue->todo.empty()) {
      absl::Status woken = co_await queue->wake.Wait(absl::InfiniteFuture());
      continue;
    }
    dat::Task<absl::Status> sending = SendFront(*queue);
    absl::Status sent = co_await sending;
    if (absl::IsCancelled(sent)) EndAll(*queue, sent);  // perhaps before Shutdown comes here
  }
  if (shut_down_) co_return Cancelled();
  co_return std::move(collected.results);
}

// ---- Out ---------------------------------------------------------------------------------------

void Batches::StartPump() {
  if (pumping_ || pump_timer_ != 0 || shut_down_ || queue_->todo.empty()) return;
  // Not from here: nobody's sink is called within his own Submit.
  pump_timer_ = loop_.RunAfter(absl::ZeroDuration(), [this] {
    pump_timer_ = 0;
    if (pumping_) return;
    pumping_ = true;
    dat::Start(Pump());
  });
}

dat::Task<void> Batches::Pump() {
  while (!queue_->todo.empty() && !shut_down_) {
    dat::Task<absl::Status> sending = SendFront(*queue_);
    absl::Status sent = co_await sending;
    if (absl::IsCancelled(sent)) break;
  }
  pumping_ = false;
}

// 4.2.3: after WHOA_COWBOY nothing is submitted before something was reported. Spec gap: with
// nothing out of this session there is nothing to be reported; then a while must do.
dat::Task<absl::Status> Batches::AwaitBreath(absl::Time deadline) {
  while (throttled_ && !shut_down_) {
    if (accepted_ > 0) {
      absl::Status woken = co_await breath_.Wait(deadline);
      CO_RETURN_IF_ERROR(woken);
      continue;
    }
    dat::Task<absl::Status> pause = connection_.Pause(throttle_delay_);
    CO_RETURN_IF_ERROR(co_await pause);
    throttle_delay_ = std::min(throttle_delay_ * 2, kThrottleMost);
    if (accepted_ == 0) throttled_ = false;
  }
  co_return shut_down_ ? Cancelled() : absl::OkStatus();
}

// The items, from the front on, that one message takes: of one user, with the same wishes.
std::vector<Batches::EntryRef> Batches::TakeFront(Queue& queue, const Session& session,
                                                  bool synchronous) {
  std::vector<EntryRef> taken;
  size_t request = kRequestBytes;
  size_t response = kResponseBytes;
  wire::DirectOpBuffers buffers;
  while (!queue.todo.empty() && taken.size() < wire::kBatchMax) {
    const EntryRef entry = queue.todo.front();
    if (entry->state != State::kQueued) {  // ended meanwhile
      queue.todo.pop_front();
      continue;
    }
    if (absl::Status loss = LossOf(*entry); !loss.ok()) {
      queue.todo.pop_front();  // first: who hears of it may put others in its place
      End(entry, std::move(loss));
      continue;
    }
    if (OverlapsKept(*entry)) break;  // SendFront sees to it
    const Group& first = taken.empty() ? *entry->group : *taken.front()->group;
    const Group& group = *entry->group;
    const bool alike = &group == &first ||
                       (group.who == first.who && group.options.window == first.options.window &&
                        group.options.num_completions == first.options.num_completions);
    if (!alike || (!taken.empty() && entry->hurried != taken.front()->hurried)) break;
    entry->item.data->Advertise(buffers);
    request += kItemBytes + ListBytes(entry->item.chunks.size()) + ListBytes(buffers.size());
    if (synchronous) response += kCompletionBytes;
    if (request > session.negotiated().max_request_size ||
        response > session.negotiated().max_response_size || buffers.size() > wire::kBuffersMax) {
      if (!taken.empty()) break;
      queue.todo.pop_front();
      End(entry, absl::InvalidArgumentError(
                     absl::StrCat("batch: an item with ", entry->item.chunks.size(), " chunks and ",
                                  buffers.size(), " buffers does not fit in a request of ",
                                  session.negotiated().max_request_size, " bytes")));
      return taken;
    }
    queue.todo.pop_front();
    SetState(*entry, State::kSending);
    taken.push_back(entry);
  }
  return taken;
}

// Whether unstable writes of the same bytes are kept, to be written again if the server loses them:
// that must not come back over what the batch wrote.
bool Batches::OverlapsKept(const Entry& entry) const {
  if (entry.item.rw_flag != wire::RwFlag::kWrite || entry.overlap_committed) return false;
  const Uncommitted& kept = files_.client_.uncommitted();
  return std::any_of(
      entry.item.chunks.begin(), entry.item.chunks.end(), [&](const wire::FileChunk& chunk) {
        return kept.HoldsAnyOf(entry.item.file, chunk.offset, chunk.offset + chunk.byte_count);
      });
}

// Once: what is written to the same place after it is nobody's to put in an order (4.2.3-01).
dat::Task<absl::Status> Batches::CommitOverlapped(EntryRef entry) {
  const std::shared_ptr<Group> group = entry->group;
  entry->overlap_committed = true;
  dat::Task<absl::StatusOr<wire::Verifier>> committing =
      files_.committer_->CommitAll(group->who, entry->item.file, 0, 0);
  absl::StatusOr<wire::Verifier> committed = co_await committing;
  if (absl::IsCancelled(committed.status())) co_return committed.status();
  if (!committed.ok() && entry->state == State::kQueued) End(entry, committed.status());
  co_return absl::OkStatus();
}

dat::Task<absl::Status> Batches::SendFront(Queue& queue) {
  if (const EntryRef front = queue.todo.front();
      front->state == State::kQueued && OverlapsKept(*front)) {
    dat::Task<absl::Status> committing = CommitOverlapped(front);
    absl::Status committed = co_await committing;
    co_return committed;
  }
  const absl::Time deadline = queue.todo.front()->group->deadline;
  dat::Task<absl::Status> breathing = AwaitBreath(deadline);
  absl::Status status = co_await breathing;
  Session* session = nullptr;
  if (status.ok()) {
    dat::Task<absl::StatusOr<Session*>> waiting = connection_.Ready(deadline);
    absl::StatusOr<Session*> ready = co_await waiting;
    status = ready.status();
    if (ready.ok()) session = *ready;
  }
  if (!status.ok()) {
    if (absl::IsDeadlineExceeded(status)) {  // soft: of the items that have waited so long
      const absl::Time now = dat::Loop::Now();
      std::vector<EntryRef> late;
      std::erase_if(queue.todo, [&](const EntryRef& entry) {
        if (entry->group->deadline > now) return false;
        late.push_back(entry);
        return true;
      });
      for (const EntryRef& entry : late) {
        if (entry->state == State::kQueued) End(entry, status);
      }
    }
    co_return status;
  }
  const bool synchronous = queue.synchronous || !session->back_control_bound();
  BatchCall call(TakeFront(queue, *session, synchronous));
  if (call.entries().empty()) co_return absl::OkStatus();
  const Entry& first = *call.entries().front();
  const std::shared_ptr<Group> group = first.group;  // not gone before the answer
  call.args.synchronous = synchronous;
  if (!synchronous) {
    if (group->options.num_completions != 0) wanted_completions_ = group->options.num_completions;
    call.args.usec_window = first.hurried ? 0 : Microseconds(group->options.window);
    call.args.num_completions = wanted_completions_;
  }
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> running = files_.Run(&group->who, chain);
  status = co_await running;
  if (!status.ok()) {
    Failed(call, status);
  } else {
    Answered(call);
  }
  co_return status;
}

// What an item of an open that could not be reclaimed, or is closed, ends with. Of it alone.
absl::Status Batches::LossOf(const Entry& entry) const {
  if (entry.item.state_id.is_zero()) return absl::OkStatus();
  std::optional<Opens::Entry> open = files_.client_.opens().Find(entry.item.state_id);
  return open.has_value() ? open->lost : absl::FailedPreconditionError("batch: the file is closed");
}

// Nothing is known of the call; what it names may be out.
void Batches::Failed(const BatchCall& call, const absl::Status& status) {
  Session* session = connection_.session();
  const bool out = absl::IsDeadlineExceeded(status) && call.sent && !call.answered &&
                   session != nullptr && session->negotiated().session_id == call.xid.session_id;
  bool ended = false;
  if (!out) {
    for (const EntryRef& entry : call.entries()) {
      absl::Status loss = entry->state == State::kSending ? LossOf(*entry) : absl::OkStatus();
      if (loss.ok()) continue;
      End(entry, std::move(loss));
      ended = true;
    }
  }
  for (const EntryRef& entry : call.entries()) {
    if (entry->state != State::kSending) continue;
    if (out) {
      entry->timed_out = status;
      SetState(*entry, State::kAccepted);
    } else if (ended && !shut_down_) {
      Requeue(entry);  // it was not this one
    } else {
      End(entry, status);
    }
  }
  // The server may still be moving data: with the session that ends.
  if (out) session->GiveUp(absl::UnavailableError(absl::StrCat("batch: ", status.message())));
}

void Batches::Answered(BatchCall& call) {
  const std::vector<EntryRef>& entries = call.entries();
  if (call.status == DafsStatus::kWhoaCowboy) {
    ++counts_.throttled;
    throttled_ = true;
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      if ((*entry)->state == State::kSending) Requeue(*entry);
    }
    return;
  }
  const Session* session = connection_.session();
  if (!call.ok()) {
    // The channel that the first session had, the next one has not.
    const bool without = call.status == DafsStatus::kBackChannelUnusable && session != nullptr &&
                         !session->back_control_bound();
    const absl::Status status = StatusOf(call, "batch");
    for (const EntryRef& entry : entries) {
      if (entry->state != State::kSending) continue;
      if (without) {
        Requeue(entry);
      } else {
        End(entry, status);
      }
    }
    return;
  }
  ++counts_.submitted;
  if (call.args.synchronous) {
    for (const wire::CompletionNotification& done : call.res.completions) {
      const auto entry = entries_.find(done.request_id);
      if (entry == entries_.end() || entry->second->state != State::kSending) continue;
      const EntryRef held = entry->second;
      Take(held, done);
    }
    for (const EntryRef& entry : entries) {
      if (entry->state == State::kSending) {
        End(entry, absl::DataLossError("batch: the answer lacks an item"));
      }
    }
    return;
  }
  throttle_delay_ = kThrottleLeast;
  // By now that session may be over, and with it what it took.
  const bool lives = session != nullptr && session->negotiated().session_id == call.xid.session_id;
  for (const EntryRef& entry : entries) {
    if (entry->state != State::kSending) continue;
    if (!lives) {
      Requeue(entry);
      ++counts_.reissued;
      continue;
    }
    SetState(*entry, State::kAccepted);
    if (entry->hurried && call.args.usec_window != 0) dat::Start(HurryLater(entry->id));
  }
  Watch();
}

// ---- Back to the queue, and the end ------------------------------------------------------------

void Batches::SetState(Entry& entry, State state) {
  if (entry.state == State::kAccepted) --accepted_;
  entry.state = state;
  if (entry.state == State::kAccepted) ++accepted_;
}

void Batches::Requeue(const EntryRef& entry) {
  SetState(*entry, State::kQueued);
  const std::shared_ptr<Queue> queue = entry->group->queue;  // who wakes may be its last owner
  queue->todo.push_front(entry);
  queue->wake.WakeAll(absl::OkStatus());
  StartPump();
}

void Batches::RequeueLater(const EntryRef& entry) {
  const absl::Duration delay = entry->delay.next();
  if (dat::Loop::Now() + delay > entry->group->deadline) {
    return End(entry, absl::DeadlineExceededError("batch: the server asks to wait, for too long"));
  }
  SetState(*entry, State::kPausing);
  entry->delay.Grow();
  // One that has ended is not there any more, nor need the Batches be.
  loop_.RunAfter(delay, [this, weak = std::weak_ptr<Entry>(entry)] {
    const EntryRef paused = weak.lock();
    if (paused != nullptr && paused->state == State::kPausing) Requeue(paused);
  });
}

void Batches::End(const EntryRef& entry, absl::Status status, uint32_t bytes_transferred) {
  const EntryRef held = entry;  // the argument may be in entries_
  SetState(*held, State::kEnded);
  entries_.erase(held->id);
  BatchResult result{std::move(status), bytes_transferred};
  if (!result.status.ok()) result.bytes_transferred = 0;
  held->group->sink->OnBatchDone(held->item.cookie, result);
  held->group->queue->wake.WakeAll(absl::OkStatus());
}

void Batches::EndAll(Queue& queue, const absl::Status& why) {
  const std::deque<EntryRef> all = std::exchange(queue.todo, {});
  for (const EntryRef& entry : all) {
    if (entry->state == State::kQueued) End(entry, why);
  }
}

bool Batches::Cancel(uint64_t request_id) {
  const auto at = entries_.find(request_id);
  if (at == entries_.end()) return false;
  const EntryRef entry = at->second;
  if (entry->state != State::kQueued && entry->state != State::kPausing) return false;
  End(entry, absl::CancelledError("cancelled before it was sent"));
  return true;
}

Batches::Counts Batches::counts() const {
  Counts counts = counts_;
  for (const auto& [id, entry] : entries_) {
    const bool at_server = entry->state == State::kSending || entry->state == State::kAccepted;
    ++(at_server ? counts.outstanding : counts.queued);
  }
  return counts;
}

}  // namespace dafs::client
