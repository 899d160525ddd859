#include "client/files/data/ranges.h"

#include "absl/strings/str_cat.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/committer.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// Ends the retries with a server whose write verifier changes each time.
constexpr int kMostCopies = 100;

class CopyRangeCall : public Call<wire::CopyRangeArgs> {
 public:
  wire::StateId* source_state_id_argument() override { return &args.source_state_id; }
};

// Whether it changes bytes that were written before.
bool ChangesData(wire::AllocateMode mode) {
  return mode != wire::AllocateMode::kAllocate && mode != wire::AllocateMode::kAllocateKeepSize;
}

}  // namespace

Task<absl::Status> RangeOperations::Allocate(const Identity& user, const wire::FileHandle& file,
                                             const wire::StateId& state_id, wire::AllocateMode mode,
                                             uint64_t offset, uint64_t length) {
  // A later rewrite of kept data must not overwrite this change.
  if (ChangesData(mode) && client_.uncommitted().Holds(file)) {
    Task<absl::StatusOr<wire::Verifier>> committing = committer_.CommitAll(user, file, 0, 0);
    absl::StatusOr<wire::Verifier> committed = co_await committing;
    if (!committed.ok()) co_return committed.status();
  }
  Call<wire::AllocateArgs> call;
  call.args.filehandle = file;
  call.args.state_id = state_id;
  call.args.offset = offset;
  call.args.length = length;
  call.args.mode = mode;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&user, chain, "allocate");
  absl::Status status = co_await task;
  co_return status;
}

Task<absl::StatusOr<uint64_t>> RangeOperations::Seek(const Identity& user,
                                                     const wire::FileHandle& file,
                                                     const wire::StateId& state_id,
                                                     wire::SeekWhat what, uint64_t offset) {
  Call<wire::SeekArgs> call;
  call.args.filehandle = file;
  call.args.state_id = state_id;
  call.args.offset = offset;
  call.args.what = what;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&user, chain, "seek");
  CO_RETURN_IF_ERROR(co_await task);
  co_return call.res.offset;
}

// The client has no copy of the data to write again. So the copy is committed before it is
// reported, and repeated if the server lost it before the commit.
Task<absl::StatusOr<CopyResult>> RangeOperations::CopyRange(
    const Identity& user, const wire::FileHandle& source, const wire::StateId& source_state_id,
    uint64_t source_offset, const wire::FileHandle& file, const wire::StateId& state_id,
    uint64_t offset, uint64_t length) {
  for (int copies = 1;; ++copies) {
    if (client_.uncommitted().Holds(file)) {  // as above
      Task<absl::StatusOr<wire::Verifier>> before = committer_.CommitAll(user, file, 0, 0);
      absl::StatusOr<wire::Verifier> committed = co_await before;
      if (!committed.ok()) co_return committed.status();
    }
    CopyRangeCall call;
    call.args.filehandle = file;
    call.args.state_id = state_id;
    call.args.offset = offset;
    call.args.source_filehandle = source;
    call.args.source_state_id = source_state_id;
    call.args.source_offset = source_offset;
    call.args.length = length;
    CallBase* const chain[] = {&call};
    Task<absl::Status> task = RunAll(&user, chain, "copy range");
    CO_RETURN_IF_ERROR(co_await task);
    if (call.res.count > length) {
      co_return absl::UnknownError("copy range: the server reports more bytes than requested");
    }
    CopyResult result;
    result.count = call.res.count;
    if (result.count == 0) co_return result;
    Task<absl::StatusOr<wire::Verifier>> after = committer_.CommitAll(user, file, 0, 0);
    absl::StatusOr<wire::Verifier> committed = co_await after;
    if (!committed.ok()) co_return committed.status();
    if (*committed == call.res.verifier) co_return result;
    if (copies == kMostCopies) {
      co_return absl::UnknownError(
          absl::StrCat("copy range: the server lost the copy before it was on stable storage, ",
                       copies, " times; see the log of the server"));
    }
  }
}

}  // namespace dafs::client
