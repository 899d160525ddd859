#include "fuse/files/commit_file.h"

#include "wire/protocol/status.h"

namespace dafs::fuse {

Task<absl::Status> CommitFile(UserFiles& files, std::shared_ptr<OpenState> open) {
  if (files.has_users()) {  // otherwise the COMMIT of one user covers all
    Task<void> committing = files.CommitOfOthers(*open->opener, open->handle);
    co_await committing;
  }
  absl::StatusOr<wire::Verifier> verifier =
      co_await files.Of(*open->opener).commits().Commit(*open->opener, open->handle, 0, 0);
  const absl::Status lost = NoteLostData(files, *open);
  // A refusal by the server is the reason why the data was lost.
  if (!lost.ok() && wire::HasDafsStatus(verifier.status())) co_return absl::OkStatus();
  co_return verifier.status();
}

absl::Status NoteLostData(UserFiles& files, const OpenState& open) {
  absl::Status lost = files.TakeFailure(open.handle);
  if (!lost.ok()) open.writes->NoteFailure(lost);  // already logged where it was found
  return lost;
}

}  // namespace dafs::fuse
