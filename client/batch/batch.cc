#include "client/batch/batch.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/batch/call.h"
#include "client/files/files.h"
#include "client/recovery/request_executor.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/check.h"
#include "runtime/status_macros.h"
#include "wire/protocol/limits.h"

namespace dafs::client {

Batches::Batches(Files& files)
    : OperationGroup(files.context()),
      files_(files),
      queue_(std::make_shared<BatchQueue>(loop_, /*is_synchronous=*/false)),
      submit_waiters_(loop_) {
  files_.Observe(*this);
}

Batches::~Batches() {
  files_.StopObserving(*this);
  Shutdown();
  if (Session* session = session_keeper_.session()) session->OnDirective(nullptr);
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

absl::StatusOr<uint64_t> Batches::Submit(const Identity& user, std::vector<BatchItem> items,
                                         const BatchOptions& options, BatchSink& sink) {
  RETURN_IF_ERROR(Check(items));
  auto group = std::make_shared<BatchGroup>();
  *group = {user, options, &sink, queue_, executor_.DeadlineFromNow()};
  const uint64_t first = entries_.last_id() + 1;
  for (BatchItem& item : items) entries_.New(std::move(item), group);
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

Task<absl::StatusOr<std::vector<BatchResult>>> Batches::Run(const Identity& user,
                                                            std::span<const BatchItem> items) {
  CO_RETURN_IF_ERROR(Check(items));
  Collected collected(items.size());
  auto queue = std::make_shared<BatchQueue>(loop_, /*is_synchronous=*/true);
  auto group = std::make_shared<BatchGroup>();
  *group = {user, BatchOptions(), &collected, queue, executor_.DeadlineFromNow()};
  for (size_t i = 0; i < items.size(); ++i) {
    BatchItem item = items[i];
    item.cookie = i;
    entries_.New(std::move(item), group);
  }
  while (collected.left > 0) {
    if (queue->todo.empty()) {
      absl::Status woken = co_await queue->wake.Wait(absl::InfiniteFuture());
      continue;
    }
    Task<absl::Status> sending = SendFront(*queue);
    absl::Status sent = co_await sending;
    // Perhaps before Shutdown gets here.
    if (absl::IsCancelled(sent)) entries_.EndAll(*queue, sent);
  }
  if (shut_down_) co_return ClientEnds();
  co_return std::move(collected.results);
}

void Batches::Requeue(const BatchEntryRef& entry) {
  entries_.SetState(*entry, BatchState::kQueued);
  // A woken task may be its last owner.
  const std::shared_ptr<BatchQueue> queue = entry->group->queue;
  queue->todo.push_front(entry);
  queue->wake.WakeAll(absl::OkStatus());
  StartPump();
}

void Batches::RequeueLater(const BatchEntryRef& entry) {
  const absl::Duration delay = entry->delay.next();
  if (Loop::Now() + delay > entry->group->deadline) {
    return entries_.End(entry,
                        absl::DeadlineExceededError(
                            "batch: the delay that the server requests exceeds the timeout"));
  }
  entries_.SetState(*entry, BatchState::kPausing);
  entry->delay.Grow();
  // If the entry has ended, it is gone; the Batches may be gone too.
  loop_.RunAfter(delay, [this, weak = std::weak_ptr<BatchEntry>(entry)] {
    const BatchEntryRef paused = weak.lock();
    if (paused != nullptr && paused->state == BatchState::kPausing) Requeue(paused);
  });
}

bool Batches::Cancel(uint64_t request_id) {
  const BatchEntryRef entry = entries_.Find(request_id);
  if (entry == nullptr) return false;
  if (entry->state != BatchState::kQueued && entry->state != BatchState::kPausing) return false;
  entries_.End(entry, absl::CancelledError("cancelled before it was sent"));
  return true;
}

Batches::Counts Batches::counts() const {
  Counts counts = counts_;
  for (const auto& [id, entry] : entries_.all()) {
    const bool at_server = entry->state == BatchState::kSending ||
                           entry->state == BatchState::kAccepted ||
                           entry->state == BatchState::kClosing;
    ++(at_server ? counts.outstanding : counts.queued);
  }
  return counts;
}

}  // namespace dafs::client
