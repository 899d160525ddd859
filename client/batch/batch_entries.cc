#include "client/batch/batch_entries.h"

#include <deque>
#include <utility>

#include "client/session/session.h"
#include "client/session/session_keeper.h"

namespace dafs::client {

BatchEntryRef BatchEntries::Find(uint64_t id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : at->second;
}

BatchEntryRef BatchEntries::New(BatchItem item, const std::shared_ptr<BatchGroup>& group) {
  auto entry = std::make_shared<BatchEntry>();
  entry->id = ++last_id_;
  entry->item = std::move(item);
  entry->group = group;
  by_id_.emplace(entry->id, entry);
  group->queue->todo.push_back(entry);
  return entry;
}

void BatchEntries::SetState(BatchEntry& entry, BatchState state) {
  if (entry.state == BatchState::kAccepted) --accepted_;
  entry.state = state;
  if (entry.state == BatchState::kAccepted) ++accepted_;
}

void BatchEntries::AfterWindows(const BatchEntryRef& entry, absl::AnyInvocable<void()> then) {
  if (entry->windows.empty()) return then();
  SetState(*entry, BatchState::kClosing);
  entry->then = std::move(then);
  // If the session is ending, the Batches continue: SessionLost or Shutdown.
  Session* session = session_keeper_.session();
  if (session == nullptr) return;
  session->EndWindows(entry->windows, [this, held = entry] { WindowsEnded(held); });
}

void BatchEntries::WindowsEnded(const BatchEntryRef& entry) {
  const BatchEntryRef held = entry;  // the argument may be in by_id_
  windows_out_ -= held->windows.size();
  held->windows.clear();
  if (held->then != nullptr) std::exchange(held->then, nullptr)();
  submit_waiters_.WakeAll(absl::OkStatus());
}

void BatchEntries::End(const BatchEntryRef& entry, absl::Status status,
                       uint32_t bytes_transferred) {
  BatchResult result{std::move(status), bytes_transferred};
  if (!result.status.ok()) result.bytes_transferred = 0;
  AfterWindows(entry, [this, held = entry, result = std::move(result)]() mutable {
    Report(held, std::move(result));
  });
}

void BatchEntries::Report(const BatchEntryRef& entry, BatchResult result) {
  const BatchEntryRef held = entry;  // the argument may be in by_id_
  SetState(*held, BatchState::kEnded);
  by_id_.erase(held->id);
  held->group->sink->OnBatchDone(held->item.cookie, result);
  held->group->queue->wake.WakeAll(absl::OkStatus());
}

void BatchEntries::EndAll(BatchQueue& queue, const absl::Status& why) {
  const std::deque<BatchEntryRef> all = std::exchange(queue.todo, {});
  for (const BatchEntryRef& entry : all) {
    if (entry->state == BatchState::kQueued) End(entry, why);
  }
}

}  // namespace dafs::client
