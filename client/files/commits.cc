#include "client/files/commits.h"

#include <optional>

#include "client/recovery/committer.h"
#include "client/recovery/operation.h"
#include "client/state/uncommitted.h"

namespace dafs::client {

dat::Task<absl::StatusOr<wire::Verifier>> CommitOperations::Commit(const Identity& who,
                                                                   const wire::FileHandle& file,
                                                                   uint64_t offset, uint32_t size,
                                                                   bool can_wait) {
  return committer_.CommitAll(who, file, offset, size, can_wait);
}

absl::Status CommitOperations::TakeFailure(const wire::FileHandle& file) {
  return client_.uncommitted().TakeFailure(file);
}

dat::Task<void> CommitOperations::CommitOfOthers(const Identity& who,
                                                 const wire::FileHandle& file) {
  std::optional<Uncommitted::Writer> writer = client_.uncommitted().WriterOf(file);
  if (!writer.has_value() || writer->who.uid == who.uid) co_return;
  dat::Task<absl::StatusOr<wire::Verifier>> task = committer_.CommitAll(writer->who, file, 0, 0);
  absl::StatusOr<wire::Verifier> ignored = co_await task;
}

dat::Task<bool> CommitOperations::DropIfRemoved(wire::FileHandle file) {
  StatCall stat(false);
  stat.args.filehandle = file;
  stat.can_wait = true;
  CallBase* const chain[] = {&stat};
  const Identity self{};
  dat::Task<absl::Status> task = RunAll(&self, chain, "get attributes");
  const absl::Status status = co_await task;
  const wire::FileAttributes attributes = stat.Take();
  const bool removed = status.ok()
                           ? attributes.has(wire::kFattrNumLinks) && attributes.num_links == 0
                           : IsGone(status);
  if (!removed) co_return false;
  client_.uncommitted().Forget(file, 0, UINT64_MAX);
  co_return true;
}

}  // namespace dafs::client
