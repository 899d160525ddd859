#include "client/recovery/owner_lookups.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/status_macros.h"
#include "wire/protocol/header.h"

namespace dafs::client {
namespace {

absl::Status Ended() { return absl::CancelledError("the mount ends"); }

}  // namespace

void SentOwners::Restore() {
  for (auto& [argument, number] : numbers) *argument = std::move(number);
  numbers.clear();
  ask.clear();
}

// How callbacks reach the loop, until Shutdown.
struct OwnerLookups::Post {
  Post(Loop& to, WaitList& waits) : loop(&to), answers(&waits) {}

  absl::Mutex mutex;
  Loop* loop ABSL_GUARDED_BY(mutex);
  WaitList* answers;  // on the thread of the loop; null after Shutdown
};

OwnerLookups::OwnerLookups(FileOwners& owners, Loop& loop)
    : owners_(owners), answers_(loop), post_(std::make_shared<Post>(loop, answers_)) {}

void OwnerLookups::Shutdown() {
  {
    absl::MutexLock lock(&post_->mutex);
    post_->loop = nullptr;
  }
  post_->answers = nullptr;
  answers_.WakeAll(Ended());
}

void OwnerLookups::ToNumbers(std::span<CallBase* const> chain, std::vector<OwnerQuestion>* ask) {
  if (!owners_.maps()) return;
  for (CallBase* call : chain) {
    wire::FileAttributes* const attributes = call->ok() ? call->result_attributes() : nullptr;
    if (attributes == nullptr || owners_.ToNumbers(*attributes, ask)) continue;
    call->spec_cond = static_cast<uint16_t>(call->spec_cond & ~wire::kSpcondAttributes);
  }
}

Task<absl::StatusOr<bool>> OwnerLookups::ToNumbers(
    std::span<wire::FileAttributes* const> attributes) {
  std::vector<OwnerQuestion> ask;
  bool has_all = true;
  for (wire::FileAttributes* one : attributes) has_all &= owners_.ToNumbers(*one, &ask);
  if (ask.empty()) co_return has_all;
  Task<absl::Status> asking = Ask(std::move(ask), absl::InfiniteFuture());
  CO_RETURN_IF_ERROR(co_await asking);
  for (wire::FileAttributes* one : attributes) has_all &= owners_.ToNumbers(*one, nullptr);
  co_return has_all;
}

absl::Status OwnerLookups::ToNames(std::span<CallBase* const> chain, SentOwners& sent) {
  if (!owners_.maps()) return absl::OkStatus();
  for (CallBase* call : chain) {
    wire::FileAttributes* const attributes = call->argument_attributes();
    if (attributes == nullptr) continue;
    for (std::string* owner : {&attributes->owner, &attributes->owner_group}) {
      if (!owner->empty()) sent.numbers.emplace_back(owner, *owner);
    }
    RETURN_IF_ERROR(owners_.ToNames(*attributes, sent.asked ? nullptr : &sent.ask));
  }
  return absl::OkStatus();
}

Task<absl::Status> OwnerLookups::Ask(std::vector<OwnerQuestion> questions, absl::Time deadline) {
  if (post_->answers == nullptr) co_return Ended();
  deadline = std::min(deadline, Loop::Now() + kMostWait);
  std::sort(questions.begin(), questions.end());
  questions.erase(std::unique(questions.begin(), questions.end()), questions.end());
  // The last decrement publishes nothing: FileOwners has the answers under a mutex of its own.
  const auto left = std::make_shared<std::atomic<size_t>>(questions.size());
  for (const OwnerQuestion& question : questions) {
    owners_.Ask(question, [left, post = post_] {
      if (left->fetch_sub(1) != 1) return;
      absl::MutexLock lock(&post->mutex);
      if (post->loop == nullptr) return;
      post->loop->Post([post] {
        if (post->answers != nullptr) post->answers->WakeAll(absl::OkStatus());
      });
    });
  }
  while (left->load() != 0) {
    absl::Status status = co_await answers_.Wait(deadline);
    if (absl::IsDeadlineExceeded(status)) break;
    CO_RETURN_IF_ERROR(status);
  }
  co_return absl::OkStatus();
}

}  // namespace dafs::client
