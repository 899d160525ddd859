#include "client/recovery/committer.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/data_calls.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/calls/wait_tracker.h"
#include "client/recovery/commit_schedule.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(1);  // for conditions that end soon
// How often the server may lose data during one CommitAll or Restore.
constexpr int kMostRounds = 8;
constexpr uint32_t kLookAtStoreEvery = 16;  // writes

// Whether `status` is the server's response, rather than a failure to reach the server.
bool IsRefusal(const absl::Status& status) { return wire::HasDafsStatus(status); }

// Whether a COMMIT failed because the data did not reach the disk. After any other error nothing is
// lost: the server could not commit just now, and the data is still uncommitted.
bool IsLoss(const absl::Status& status) {
  if (!wire::HasDafsStatus(status)) return false;
  switch (wire::DafsFromStatus(status)) {
    case wire::DafsStatus::kIo:
    case wire::DafsStatus::kNoSpc:
    case wire::DafsStatus::kDquot:
      return true;
    default:
      return false;
  }
}

void LogLoss(const std::string& name, const absl::Status& why) {
  LogError(absl::StrCat(name, ": data that was written to a file may be lost: ", why.message(),
                        "; the next fsync or close of the file fails"));
}

}  // namespace

bool IsGone(const absl::Status& status) {
  if (!wire::HasDafsStatus(status)) return false;
  switch (wire::DafsFromStatus(status)) {
    case wire::DafsStatus::kStale:
    case wire::DafsStatus::kBadHandle:
    case wire::DafsStatus::kFhExpired:
      return true;
    default:
      return false;
  }
}

Committer::Committer(RequestExecutor& executor)
    : executor_(executor),
      session_keeper_(executor.session_keeper()),
      store_(executor.client().uncommitted()) {}

// Sends one COMMIT for the whole file if any of its data needs one, otherwise for the range.
Task<absl::StatusOr<wire::Verifier>> Committer::CommitOnce(const Identity& user,
                                                           const wire::FileHandle& file,
                                                           uint64_t offset, uint32_t size,
                                                           bool* safe, bool can_wait) {
  const bool whole = store_.NeedsCommit(file);
  const uint64_t covered = store_.BeforeCommit(file);
  Call<wire::CommitArgs> call;
  call.args.filehandle = file;
  call.args.offset = whole ? 0 : offset;
  call.args.count = whole ? 0 : size;
  call.can_wait = can_wait;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = executor_.RunAll(&user, chain, "commit");
  CO_RETURN_IF_ERROR(co_await task);
  executor_.client().lost_data().Recovered(file);
  *safe = store_.AfterCommit(file, covered, call.res.writeverf);
  co_return call.res.writeverf;
}

Task<absl::StatusOr<wire::Verifier>> Committer::CommitAll(const Identity& user,
                                                          const wire::FileHandle& file,
                                                          uint64_t offset, uint32_t size) {
  return CommitRounds(user, file, offset, size, /*once=*/false, /*can_wait=*/false);
}

Task<absl::Status> Committer::CommitInBackground(wire::FileHandle file, bool can_wait) {
  std::optional<Uncommitted::Writer> writer = store_.WriterOf(file);
  if (!writer.has_value()) co_return absl::OkStatus();
  Task<absl::StatusOr<wire::Verifier>> task =
      CommitRounds(writer->user, file, 0, 0, /*once=*/true, can_wait);
  const absl::Status status = (co_await task).status();
  // After a failed COMMIT the next one retries, but data of a deleted file is dropped.
  if (absl::IsAborted(status)) GiveUpData(file, status);
  co_return status;
}

void Committer::NoteLoss(const wire::FileHandle& file, const absl::Status& why, bool once) {
  if (IsLoss(why) && executor_.client().lost_data().Note(file, why, once)) {
    LogLoss(session_keeper_.name(), why);
  }
}

Task<absl::StatusOr<wire::Verifier>> Committer::CommitRounds(const Identity& user,
                                                             const wire::FileHandle& file,
                                                             uint64_t offset, uint32_t size,
                                                             bool once, bool can_wait) {
  for (int round = 0; round < kMostRounds; ++round) {
    bool safe = false;
    Task<absl::StatusOr<wire::Verifier>> committing =
        CommitOnce(user, file, offset, size, &safe, can_wait);
    absl::StatusOr<wire::Verifier> verifier = co_await committing;
    NoteLoss(file, verifier.status(), once);
    if (IsGone(verifier.status())) store_.Drop(file);
    if (!verifier.ok() || safe) co_return verifier;
    Task<absl::Status> writing = WriteAgain(file, *verifier);
    absl::Status status = co_await writing;
    if (!status.ok()) GiveUpData(file, status);
    CO_RETURN_IF_ERROR(status);
  }
  co_return absl::UnknownError(
      absl::StrCat("commit: the server lost uncommitted data ", kMostRounds, " times"));
}

// Writes again the data kept of `file` whose verifier differs from `verifier`.
Task<absl::Status> Committer::WriteAgain(wire::FileHandle file, wire::Verifier verifier) {
  while (!store_.BeginRewrite(file)) {  // another worker writes it again
    if (!store_.Holds(file)) co_return absl::OkStatus();
    Task<absl::Status> pause = session_keeper_.Pause(kLookAgain);
    CO_RETURN_IF_ERROR(co_await pause);
    if (!store_.NextStale(file, verifier, 1).has_value()) co_return absl::OkStatus();
  }
  absl::Status status;
  while (status.ok() && !store_.Drained(file)) {
    Task<absl::Status> pause = session_keeper_.Pause(kLookAgain);
    status = co_await pause;
  }
  uint64_t bytes = 0;
  uint64_t next = 0;
  while (status.ok()) {
    uint32_t room = executor_.client().options().max_request_size;
    if (Session* session = session_keeper_.session()) room = session->negotiated().max_request_size;
    std::optional<Uncommitted::Piece> piece =
        store_.NextStale(file, verifier, room - kWriteInlineData);
    // The rest was written again in this loop, under yet another verifier. The next COMMIT shows if
    // it is lost.
    if (!piece.has_value() || piece->offset < next) break;
    Task<absl::StatusOr<uint32_t>> task = WritePieceAgain(file, *piece);
    absl::StatusOr<uint32_t> written = co_await task;
    status = written.status();
    if (!status.ok()) break;
    bytes += *written;
    next = piece->offset + *written;
  }
  store_.EndRewrite(file);
  if (bytes > 0) {
    LogNotice(absl::StrCat(session_keeper_.name(), ": ", bytes,
                           " bytes of uncommitted data, which the server had lost, were "
                           "written again"));
  }
  co_return status;
}

Task<absl::StatusOr<uint32_t>> Committer::WritePieceAgain(wire::FileHandle file,
                                                          const Uncommitted::Piece& piece) {
  WriteBytesCall call(piece.data);
  call.args.filehandle = file;
  // WIRE R64: a closed file is written without a state id, with the credentials of its writer. This
  // never applies to data written under a lock or share reservation: that is committed before the
  // lock is released, and dropped if the lock is lost (Reclaim::GiveUpOpen, which runs before any
  // data is restored).
  std::optional<Opens::Entry> open = executor_.client().opens().Find(piece.writer.open);
  if (open.has_value() && open->lost.ok()) call.args.state_id = piece.writer.open;
  call.args.offset = piece.offset;
  call.args.stable_how = wire::StableHow::kUnstable;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = executor_.RunAll(&piece.writer.user, chain, "write again");
  CO_RETURN_IF_ERROR(co_await task);
  if (call.res.count == 0 || call.res.count > piece.data.size()) {
    co_return absl::UnknownError(
        absl::StrCat("write again: the server says that it took ", call.res.count));
  }
  if (call.res.committed == wire::StableHow::kUnstable) {
    store_.Rewritten(file, piece.offset, call.res.count, call.res.verifier);
  } else {
    store_.Forget(file, piece.offset, piece.offset + call.res.count);
  }
  co_return call.res.count;
}

// ---- Kept data ------------------------------------------------------------------------------

Task<absl::Status> Committer::BeginWrite(const wire::FileHandle& file) {
  while (!store_.BeginWrite(file)) {
    Task<absl::Status> pause = session_keeper_.Pause(kLookAgain);
    CO_RETURN_IF_ERROR(co_await pause);
  }
  co_return absl::OkStatus();
}

Task<bool> Committer::Keep(const DataTarget& target, uint64_t offset,
                           std::span<const std::byte> data, std::shared_ptr<const void> memory,
                           wire::Verifier verifier) {
  if (store_.Add(*target.file, *target.user, target.state_id, offset, data, memory, verifier)) {
    schedule_->Add(*target.file, data.size());
    // Half full: start a COMMIT now, so that later writes need not wait for one.
    if (++kept_ % kLookAtStoreEvery == 0 && store_.bytes() > store_.most_bytes() / 2) CommitSoon();
    co_return true;
  }
  // This function writes nothing again: that would wait for the write that called it.
  for (const wire::FileHandle& file : store_.Files()) {
    std::optional<Uncommitted::Writer> last = store_.WriterOf(file);
    if (!last.has_value()) continue;
    bool safe = false;
    Task<absl::StatusOr<wire::Verifier>> task = CommitOnce(last->user, file, 0, 0, &safe);
    absl::StatusOr<wire::Verifier> committed = co_await task;
    if (!committed.ok()) GiveUpData(file, committed.status());
    if (store_.Add(*target.file, *target.user, target.state_id, offset, data, memory, verifier)) {
      schedule_->Add(*target.file, data.size());
      co_return true;
    }
  }
  co_return false;
}

void Committer::NeedCommit(const wire::FileHandle& file, const Identity& user, uint64_t bytes) {
  store_.NeedCommit(file, user);
  schedule_->Add(file, bytes);
}

void Committer::CommitSoon() { schedule_->CommitSoon(); }

// The server refuses to commit the data of `file`: drops the data; the next fsync reports it.
void Committer::GiveUpData(const wire::FileHandle& file, const absl::Status& why) {
  if (IsGone(why)) {
    store_.Drop(file);
  } else if (IsRefusal(why)) {
    LogLoss(session_keeper_.name(), why);
    store_.Drop(file);
    executor_.client().lost_data().NoteDropped(file, why);
  }
}

void Committer::StartRestoring() {
  ++restarts_;
  if (store_.Files().empty()) return;
  if (std::exchange(restoring_, true)) return;  // Restore starts over
  Start(Restore());
}

// Repeats until no file has lost data, since the server may lose data again meanwhile.
Task<void> Committer::Restore() {
  WaitTracker::Wait wait(executor_.wait_tracker(),
                         "the search for data that the restarted server lost");
  uint64_t seen = 0;
  bool lost = true;
  for (int rounds = 0; seen != restarts_ || (lost && rounds < kMostRounds); ++rounds) {
    if (std::exchange(seen, restarts_) != restarts_) rounds = 0;
    Task<bool> task = RestoreFiles();
    lost = co_await task;
  }
  restoring_ = false;
  Task<absl::Status> turn = session_keeper_.Pause(absl::ZeroDuration());
  if (!(co_await turn).ok()) co_return;  // the mount ends
  restored_();
  schedule_->CommitSoon();
}

// One COMMIT per file system suffices to learn its verifier. All files are checked: a file without
// a loss may have been written again by another worker that has not reached the other files yet.
// Returns true if this or another worker wrote data again, or if the server restarted meanwhile.
Task<bool> Committer::RestoreFiles() {
  const uint64_t seen = restarts_;
  bool lost = false;
  absl::flat_hash_map<wire::FsHandle, wire::Verifier> verifiers;
  for (const wire::FileHandle& file : store_.Files()) {
    auto now = verifiers.find(file.fshandle);
    if (now == verifiers.end()) {
      std::optional<Uncommitted::Writer> writer = store_.WriterOf(file);
      if (!writer.has_value()) continue;
      bool ignored = false;
      Task<absl::StatusOr<wire::Verifier>> committing =
          CommitOnce(writer->user, file, 0, 0, &ignored);
      absl::StatusOr<wire::Verifier> verifier = co_await committing;
      if (seen != restarts_) co_return true;
      if (!verifier.ok()) {
        GiveUpData(file, verifier.status());
        continue;
      }
      now = verifiers.emplace(file.fshandle, *verifier).first;
    }
    if (!store_.NextStale(file, now->second, 1).has_value()) continue;
    Task<absl::Status> writing = WriteAgain(file, now->second);
    absl::Status status = co_await writing;
    if (seen != restarts_) co_return true;
    if (!status.ok()) GiveUpData(file, status);
    lost |= status.ok();  // no further round if the server cannot be reached
  }
  co_return lost;
}

}  // namespace dafs::client
