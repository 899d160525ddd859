#include "client/files/data/commits.h"

#include <optional>
#include <utility>

#include "client/recovery/calls/operation.h"
#include "client/recovery/committer.h"
#include "client/state/data/uncommitted.h"

namespace dafs::client {
namespace {

constexpr size_t kMostAsking = 8;  // requests of DropIfRemoved, leaving slots to others

}  // namespace

Task<absl::StatusOr<wire::Verifier>> CommitOperations::Commit(const Identity& user,
                                                              const wire::FileHandle& file,
                                                              uint64_t offset, uint32_t size) {
  return committer_.CommitAll(user, file, offset, size);
}

absl::Status CommitOperations::TakeFailure(const wire::FileHandle& file) {
  return client_.lost_data().Take(file);
}

Task<void> CommitOperations::CommitOfOthers(const Identity& user, const wire::FileHandle& file) {
  if (!client_.uncommitted().Holds(file)) co_return;
  std::optional<Uncommitted::Writer> writer = client_.uncommitted().WriterOf(file);
  if (!writer.has_value() || writer->user.uid == user.uid) co_return;
  Task<absl::StatusOr<wire::Verifier>> task = committer_.CommitAll(writer->user, file, 0, 0);
  absl::StatusOr<wire::Verifier> ignored = co_await task;
}

bool CommitOperations::NeedsCommit(const wire::FileHandle& file) const {
  return client_.uncommitted().NeedsCommit(file);
}

Task<void> CommitOperations::CommitNow(const wire::FileHandle& file) {
  return schedule_.CommitNow(file);
}

void CommitOperations::CommitSoon() { schedule_.MakeAllDue(); }

void CommitOperations::CommitAll(std::function<void()> done) {
  ending_ = true;
  schedule_.CommitAll(std::move(done));
}

void CommitOperations::DropIfRemoved(const wire::FileHandle& file) {
  if (ending_ || !NeedsCommit(file)) return;
  removed_.push_back(file);
  if (asking_ == kMostAsking) return;
  ++asking_;
  Start(AskForRemoved());
}

Task<void> CommitOperations::AskForRemoved() {
  while (!removed_.empty() && !ending_) {
    const wire::FileHandle file = std::move(removed_.front());
    removed_.pop_front();
    if (!NeedsCommit(file)) continue;
    Task<bool> asking = IsRemoved(file);
    if (!(co_await asking)) continue;
    client_.uncommitted().Drop(file);
    schedule_.Drop(file);
  }
  --asking_;
}

// Returns false also if that is unknown.
Task<bool> CommitOperations::IsRemoved(const wire::FileHandle& file) {
  StatCall stat(false);
  stat.args.filehandle = file;
  stat.can_wait = true;
  CallBase* const chain[] = {&stat};
  const Identity self{};
  Task<absl::Status> task = RunAll(&self, chain, "get attributes");
  const absl::Status status = co_await task;
  if (!status.ok()) co_return IsGone(status);
  const Attributes attributes = stat.Take();
  co_return attributes.has(wire::kFattrNumLinks) && attributes.num_links == 0;
}

}  // namespace dafs::client
