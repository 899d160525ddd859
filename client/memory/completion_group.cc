#include "client/memory/completion_group.h"

#include "runtime/check.h"

namespace dafs::client {

CompletionGroup::~CompletionGroup() {
  DAFS_CHECK(outstanding_ == 0 && ended_ == 0,
             "a completion group is destroyed before its I/O ended");
}

void CompletionGroup::Ended(internal::GroupEntry& entry) {
  --outstanding_;
  ++ended_;
  entry.next = nullptr;
  entry.prev = last_;
  (last_ != nullptr ? last_->next : first_) = &entry;
  last_ = &entry;
}

void CompletionGroup::Remove(internal::GroupEntry& entry) {
  --ended_;
  (entry.prev != nullptr ? entry.prev->next : first_) = entry.next;
  (entry.next != nullptr ? entry.next->prev : last_) = entry.prev;
}

size_t CompletionGroup::Take(std::span<IoCompletion> out) {
  size_t count = 0;
  while (count < out.size() && first_ != nullptr) {
    internal::GroupEntry& entry = *first_;
    Remove(entry);
    entry.Collect(out[count++]);
  }
  return count;
}

size_t CompletionGroup::Poll(std::span<IoCompletion> out) {
  if (first_ == nullptr) loop_.Turn();
  return Take(out);
}

size_t CompletionGroup::Wait(std::span<IoCompletion> out, absl::Duration timeout) {
  const bool for_ever = timeout == absl::InfiniteDuration();
  const absl::Time end = for_ever ? absl::InfiniteFuture() : Loop::Now() + timeout;
  while (first_ == nullptr && outstanding_ > 0) {
    absl::Duration left = absl::InfiniteDuration();
    if (!for_ever) {
      left = end - Loop::Now();
      if (left <= absl::ZeroDuration()) break;
    }
    loop_.RunOnce(left);
  }
  return Take(out);
}

}  // namespace dafs::client
