#include "client/batch/batch.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/batch/call.h"
#include "client/files/files.h"
#include "client/recovery/runner.h"
#include "client/session/connection.h"
#include "client/session/session.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"
#include "wire/protocol/limits.h"

namespace dafs::client {

Batches::Batches(Files& files)
    : OperationGroup(files.context()),
      files_(files),
      queue_(std::make_shared<Queue>(loop_, /*is_synchronous=*/false)),
      breath_(loop_) {
  files_.Observe(*this);
}

Batches::~Batches() {
  files_.StopObserving(*this);
  Shutdown();
  if (Session* session = connection_.session()) session->OnDirective(nullptr);
  DAFS_CHECK(!pumping_ && !probing_, "Shutdown left a batch outstanding");
}

absl::Status Batches::Check(std::span<const BatchItem> items) const {
  if (shut_down_) return ClientEnds();
  for (const BatchItem& item : items) {
    uint64_t total = 0;
    bool reaches_too_far = false;
    for (const wire::FileChunk& chunk : item.chunks) {
      total += chunk.byte_count;
      reaches_too_far |= chunk.offset > std::numeric_limits<uint64_t>::max() - chunk.byte_count;
    }
    if (reaches_too_far) {
      return absl::InvalidArgumentError("batch: a chunk that ends after the last offset");
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
  *group = {who, options, &sink, queue_, runner_.DeadlineFromNow()};
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

Task<absl::StatusOr<std::vector<BatchResult>>> Batches::Run(const Identity& who,
                                                            std::span<const BatchItem> items) {
  CO_RETURN_IF_ERROR(Check(items));
  Collected collected(items.size());
  auto queue = std::make_shared<Queue>(loop_, /*is_synchronous=*/true);
  auto group = std::make_shared<Group>();
  *group = {who, BatchOptions(), &collected, queue, runner_.DeadlineFromNow()};
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
    Task<absl::Status> sending = SendFront(*queue);
    absl::Status sent = co_await sending;
    if (absl::IsCancelled(sent)) EndAll(*queue, sent);  // perhaps before Shutdown gets here
  }
  if (shut_down_) co_return ClientEnds();
  co_return std::move(collected.results);
}

void Batches::SetState(Entry& entry, State state) {
  if (entry.state == State::kAccepted) --accepted_;
  entry.state = state;
  if (entry.state == State::kAccepted) ++accepted_;
}

void Batches::Requeue(const EntryRef& entry) {
  SetState(*entry, State::kQueued);
  const std::shared_ptr<Queue> queue = entry->group->queue;  // a woken task may be its last owner
  queue->todo.push_front(entry);
  queue->wake.WakeAll(absl::OkStatus());
  StartPump();
}

void Batches::RequeueLater(const EntryRef& entry) {
  const absl::Duration delay = entry->delay.next();
  if (Loop::Now() + delay > entry->group->deadline) {
    return End(entry, absl::DeadlineExceededError(
                          "batch: the delay that the server requests exceeds the timeout"));
  }
  SetState(*entry, State::kPausing);
  entry->delay.Grow();
  // If the entry has ended, it is gone; the Batches may be gone too.
  loop_.RunAfter(delay, [this, weak = std::weak_ptr<Entry>(entry)] {
    const EntryRef paused = weak.lock();
    if (paused != nullptr && paused->state == State::kPausing) Requeue(paused);
  });
}

void Batches::AfterWindows(const EntryRef& entry, absl::AnyInvocable<void()> then) {
  if (entry->windows.empty()) return then();
  SetState(*entry, State::kClosing);
  entry->then = std::move(then);
  // If the session is ending, SessionLost or Shutdown continues.
  Session* session = connection_.session();
  if (session == nullptr) return;
  session->EndWindows(entry->windows, [this, held = entry] { WindowsEnded(held); });
}

void Batches::WindowsEnded(const EntryRef& entry) {
  const EntryRef held = entry;  // the argument may be in entries_
  windows_out_ -= held->windows.size();
  held->windows.clear();
  if (held->then != nullptr) std::exchange(held->then, nullptr)();
  breath_.WakeAll(absl::OkStatus());
}

void Batches::End(const EntryRef& entry, absl::Status status, uint32_t bytes_transferred) {
  BatchResult result{std::move(status), bytes_transferred};
  if (!result.status.ok()) result.bytes_transferred = 0;
  AfterWindows(entry, [this, held = entry, result = std::move(result)]() mutable {
    Tell(held, std::move(result));
  });
}

void Batches::Tell(const EntryRef& entry, BatchResult result) {
  const EntryRef held = entry;  // the argument may be in entries_
  SetState(*held, State::kEnded);
  entries_.erase(held->id);
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
    const bool at_server = entry->state == State::kSending || entry->state == State::kAccepted ||
                           entry->state == State::kClosing;
    ++(at_server ? counts.outstanding : counts.queued);
  }
  return counts;
}

}  // namespace dafs::client
