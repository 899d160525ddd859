// The items of batches that have not ended: their states, their memory windows, and how they end.
// For client/batch only. Spec: 5.2.3.
// Belongs to the thread of the Batches. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "client/batch/batch_entry.h"
#include "runtime/loop/wait_list.h"

namespace dafs::client {

class SessionKeeper;

class BatchEntries {
 public:
  // Both are borrowed. Windows that end wake `submit_waiters`.
  BatchEntries(SessionKeeper& session_keeper, WaitList& submit_waiters)
      : session_keeper_(session_keeper), submit_waiters_(submit_waiters) {}

  // Adds an item at the end of the queue of its group.
  BatchEntryRef New(BatchItem item, const std::shared_ptr<BatchGroup>& group);
  // Null: it has ended.
  BatchEntryRef Find(uint64_t id) const;
  const absl::flat_hash_map<uint64_t, BatchEntryRef>& all() const { return by_id_; }
  uint64_t last_id() const { return last_id_; }  // of all that were ever added
  // The items that the server accepted and has not reported.
  size_t accepted() const { return accepted_; }

  void SetState(BatchEntry& entry, BatchState state);
  // Runs `then` once the server can no longer reach the item's memory by a window, possibly before
  // this returns. Until then the item is kClosing.
  void AfterWindows(const BatchEntryRef& entry, absl::AnyInvocable<void()> then);
  // Ends an item once its windows are closed: calls its sink, and wakes its queue.
  void End(const BatchEntryRef& entry, absl::Status status, uint32_t bytes_transferred = 0);
  // Ends all items of the queue that are not at the server.
  void EndAll(BatchQueue& queue, const absl::Status& why);

  // The memory windows of items.
  size_t windows_out() const { return windows_out_; }
  void CountWindows(ptrdiff_t more) { windows_out_ += static_cast<size_t>(more); }
  void WindowsEndedWithSession() { windows_out_ = 0; }

 private:
  void WindowsEnded(const BatchEntryRef& entry);
  void Report(const BatchEntryRef& entry, BatchResult result);

  SessionKeeper& session_keeper_;
  WaitList& submit_waiters_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, BatchEntryRef> by_id_;
  size_t accepted_ = 0;
  size_t windows_out_ = 0;
};

}  // namespace dafs::client
