// COMMIT, and what it is told about: the data of unstable writes is kept (client/uncommitted.h)
// until it is safe, and written again when the server lost it.
// Spec: 6.5.8, 6.5.38: data written under another verifier than COMMIT's may be lost.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "client/connection.h"
#include "client/files.h"
#include "client/operation.h"
#include "client/session.h"
#include "client/wait_list.h"
#include "client/waits.h"
#include "wire/log.h"
#include "wire/status_macros.h"

namespace dafs::client {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(1);  // for what ends soon
// Data is not left uncommitted for longer: what is lost in between is written again late.
constexpr absl::Duration kCommitAfter = absl::Seconds(10);
// Times that the server may lose its data in the middle of one COMMIT.
constexpr int kMostRounds = 8;
constexpr uint32_t kLookAtStoreEvery = 16;  // writes
constexpr uint32_t kWriteInlineData = 136;  // message offset of the data, WIRE R12

// WRITE_INLINE of bytes that lie in no lease.
class WriteAgainCall : public Call<wire::WriteInlineArgs> {
 public:
  explicit WriteAgainCall(std::span<const std::byte> data) : data_(data) {}

 protected:
  wire::InlineData inline_data() const override { return {data_, 0}; }

 private:
  std::span<const std::byte> data_;
};

// Whether it is the server's answer, and not only a server that cannot be reached.
bool IsRefusal(const absl::Status& status) { return wire::HasDafsStatus(status); }

}  // namespace

// One COMMIT of the whole file or, where nothing is kept of it, of a range.
dat::Task<absl::StatusOr<wire::Verifier>> Files::CommitOnce(const Identity& who,
                                                            const wire::FileHandle& file,
                                                            uint64_t offset, uint32_t size,
                                                            bool* safe) {
  const bool kept = client_.uncommitted().Holds(file);
  const uint64_t covered = client_.uncommitted().BeforeCommit(file);
  Call<wire::CommitArgs> call;
  call.args.filehandle = file;
  call.args.offset = kept ? 0 : offset;
  call.args.count = kept ? 0 : size;
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> task = RunAll(&who, chain, "commit");
  CO_RETURN_IF_ERROR(co_await task);
  *safe = client_.uncommitted().AfterCommit(file, covered, call.res.writeverf);
  co_return call.res.writeverf;
}

dat::Task<absl::StatusOr<wire::Verifier>> Files::Commit(const Identity& who,
                                                        const wire::FileHandle& file,
                                                        uint64_t offset, uint32_t size) {
  CO_RETURN_IF_ERROR(client_.uncommitted().TakeFailure(file));
  dat::Task<absl::StatusOr<wire::Verifier>> task = CommitAll(who, file, offset, size);
  absl::StatusOr<wire::Verifier> verifier = co_await task;
  // What failed meanwhile elsewhere is told now too.
  absl::Status failure = client_.uncommitted().TakeFailure(file);
  if (verifier.ok() && !failure.ok()) co_return failure;
  co_return verifier;
}

// COMMIT until nothing is left that the server lost meanwhile.
dat::Task<absl::StatusOr<wire::Verifier>> Files::CommitAll(const Identity& who,
                                                           const wire::FileHandle& file,
                                                           uint64_t offset, uint32_t size) {
  for (int round = 0; round < kMostRounds; ++round) {
    bool safe = false;
    dat::Task<absl::StatusOr<wire::Verifier>> committing =
        CommitOnce(who, file, offset, size, &safe);
    absl::StatusOr<wire::Verifier> verifier = co_await committing;
    if (!verifier.ok() || safe) co_return verifier;
    dat::Task<absl::Status> writing = WriteAgain(file, *verifier);
    absl::Status status = co_await writing;
    if (!status.ok()) GiveUpData(file, status);
    CO_RETURN_IF_ERROR(status);
  }
  co_return absl::UnknownError(
      absl::StrCat("commit: the server lost its data ", kMostRounds, " times meanwhile"));
}

// Writes again what is kept of `file` under another verifier than `verifier`.
dat::Task<absl::Status> Files::WriteAgain(wire::FileHandle file, wire::Verifier verifier) {
  Uncommitted& store = client_.uncommitted();
  while (!store.BeginRewrite(file)) {  // somebody else does it
    if (!store.Holds(file)) co_return absl::OkStatus();
    dat::Task<absl::Status> pause = connection_->Pause(kLookAgain);
    CO_RETURN_IF_ERROR(co_await pause);
    if (!store.NextStale(file, verifier, 1).has_value()) co_return absl::OkStatus();
  }
  absl::Status status;
  while (status.ok() && !store.Drained(file)) {
    dat::Task<absl::Status> pause = connection_->Pause(kLookAgain);
    status = co_await pause;
  }
  uint64_t bytes = 0;
  uint64_t next = 0;
  while (status.ok()) {
    uint32_t room = client_.options().max_request_size;
    if (Session* session = connection_->session()) room = session->negotiated().max_request_size;
    std::optional<Uncommitted::Piece> piece =
        store.NextStale(file, verifier, room - kWriteInlineData);
    // What was written here a moment ago is under yet another verifier: the next COMMIT tells.
    if (!piece.has_value() || piece->offset < next) break;
    dat::Task<absl::StatusOr<uint32_t>> task = WritePieceAgain(file, *piece);
    absl::StatusOr<uint32_t> written = co_await task;
    status = written.status();
    if (!status.ok()) break;
    bytes += *written;
    next = piece->offset + *written;
  }
  store.EndRewrite(file);
  if (bytes > 0) {
    LogNotice(absl::StrCat(connection_->name(), ": ", bytes,
                           " bytes that the server had lost before COMMIT were written again"));
  }
  co_return status;
}

dat::Task<absl::StatusOr<uint32_t>> Files::WritePieceAgain(wire::FileHandle file,
                                                           const Uncommitted::Piece& piece) {
  WriteAgainCall call(piece.data);
  call.args.filehandle = file;
  // WIRE R64: a file that is closed is written without a state id, as its writer.
  std::optional<Opens::Entry> open = client_.opens().Find(piece.writer.open);
  if (open.has_value() && open->lost.ok()) call.args.state_id = piece.writer.open;
  call.args.offset = piece.offset;
  call.args.byte_count = static_cast<uint32_t>(piece.data.size());
  call.args.stable_how = wire::StableHow::kUnstable;
  CallBase* const chain[] = {&call};
  dat::Task<absl::Status> task = RunAll(&piece.writer.who, chain, "write again");
  CO_RETURN_IF_ERROR(co_await task);
  if (call.res.count == 0 || call.res.count > piece.data.size()) {
    co_return absl::UnknownError(
        absl::StrCat("write again: the server says that it took ", call.res.count));
  }
  if (call.res.committed == wire::StableHow::kUnstable) {
    client_.uncommitted().Rewritten(file, piece.offset, call.res.count, call.res.verifier);
  } else {
    client_.uncommitted().Forget(file, piece.offset, piece.offset + call.res.count);
  }
  co_return call.res.count;
}

// ---- What is kept ----------------------------------------------------------------------------

// Waits until `file` may be written.
dat::Task<absl::Status> Files::BeginWrite(const wire::FileHandle& file) {
  while (!client_.uncommitted().BeginWrite(file)) {
    dat::Task<absl::Status> pause = connection_->Pause(kLookAgain);
    CO_RETURN_IF_ERROR(co_await pause);
  }
  co_return absl::OkStatus();
}

// Keeps a part of what was written unstable. False: there is no room even after COMMIT.
dat::Task<bool> Files::Keep(const Target& target, uint64_t offset, std::span<const std::byte> data,
                            wire::Verifier verifier) {
  Uncommitted& store = client_.uncommitted();
  if (store.Add(*target.file, *target.who, target.state_id, offset, data, verifier,
                dat::Loop::Now())) {
    if (commit_timer_ == 0) CommitLater(kCommitAfter, kCommitAfter);
    // Half full: COMMIT now, so that nobody has to wait for it later.
    if (++kept_ % kLookAtStoreEvery == 0 && !committing_early_ &&
        store.bytes() > store.most_bytes() / 2) {
      dat::Start(CommitEarly());
    }
    co_return true;
  }
  // Neither here nor below is anything written again: that would wait for this very write.
  for (const wire::FileHandle& file : store.Files(absl::InfiniteFuture())) {
    std::optional<Uncommitted::Writer> last = store.WriterOf(file);
    if (!last.has_value()) continue;
    bool safe = false;
    dat::Task<absl::StatusOr<wire::Verifier>> task = CommitOnce(last->who, file, 0, 0, &safe);
    absl::StatusOr<wire::Verifier> committed = co_await task;
    if (!committed.ok()) GiveUpData(file, committed.status());
    if (store.Add(*target.file, *target.who, target.state_id, offset, data, verifier,
                  dat::Loop::Now())) {
      co_return true;
    }
  }
  co_return false;
}

dat::Task<void> Files::CommitEarly() {
  committing_early_ = true;
  dat::Task<void> task = CommitOld(absl::InfiniteFuture());
  co_await task;
  committing_early_ = false;
}

// The server refuses to make the data of `file` safe: it is let go, and the next fsync is told.
void Files::GiveUpData(const wire::FileHandle& file, const absl::Status& why) {
  switch (wire::DafsFromStatus(why)) {
    case wire::DafsStatus::kStale:  // the file is gone, and its data with it
    case wire::DafsStatus::kBadHandle:
    case wire::DafsStatus::kFhExpired:
      client_.uncommitted().Forget(file, 0, UINT64_MAX);
      return;
    default:
      if (!IsRefusal(why)) return;
      LogError(absl::StrCat(connection_->name(),
                            ": written data could not be made safe: ", why.message()));
      client_.uncommitted().Fail(file, why);
  }
}

void Files::CommitLater(absl::Duration delay, absl::Duration age) {
  loop_.Cancel(commit_timer_);
  commit_timer_ = loop_.RunAfter(delay, [this, age] {
    commit_timer_ = 0;
    dat::Start(CommitOld(dat::Loop::Now() - age));
  });
}

void Files::StartRestoring() {
  ++restarts_;
  if (client_.uncommitted().Files(absl::InfiniteFuture()).empty()) return;
  if (std::exchange(restoring_, true)) return;  // that begins anew
  dat::Start(Restore());
}

dat::Task<void> Files::Restore() {
  Waits::Note note(*waits_, "looking what the restarted server has lost");
  for (uint64_t seen = 0; seen != restarts_;) {
    seen = restarts_;
    absl::flat_hash_set<wire::FsHandle> safe;  // file systems of which nothing is lost
    for (const wire::FileHandle& file : client_.uncommitted().Files(absl::InfiniteFuture())) {
      if (safe.contains(file.fshandle)) continue;
      dat::Task<bool> task = RestoreFile(file);
      const bool lost = co_await task;
      if (!lost) safe.insert(file.fshandle);
      if (seen != restarts_) break;
    }
  }
  restoring_ = false;
  dat::Task<absl::Status> turn = connection_->Pause(absl::ZeroDuration());
  if (!(co_await turn).ok()) co_return;  // the mount ends
  CommitLater(absl::ZeroDuration(), absl::ZeroDuration());
  reclaim_->WakeAll(absl::OkStatus());  // they look for themselves
}

// False: nothing is lost of this file, and so of no other of its file system; or the mount ends.
dat::Task<bool> Files::RestoreFile(wire::FileHandle file) {
  std::optional<Uncommitted::Writer> writer = client_.uncommitted().WriterOf(file);
  if (!writer.has_value()) co_return true;
  bool safe = false;
  dat::Task<absl::StatusOr<wire::Verifier>> committing = CommitOnce(writer->who, file, 0, 0, &safe);
  absl::StatusOr<wire::Verifier> verifier = co_await committing;
  absl::Status status = verifier.status();
  if (status.ok() && safe) co_return false;
  if (status.ok()) {
    dat::Task<absl::Status> writing = WriteAgain(file, *verifier);
    status = co_await writing;
  }
  if (absl::IsCancelled(status)) co_return false;
  if (!status.ok()) GiveUpData(file, status);
  co_return true;
}

// Commits the files with uncommitted data from `before` that time.
dat::Task<void> Files::CommitOld(absl::Time before) {
  for (const wire::FileHandle& file : client_.uncommitted().Files(before)) {
    std::optional<Uncommitted::Writer> writer = client_.uncommitted().WriterOf(file);
    if (!writer.has_value()) continue;
    dat::Task<absl::StatusOr<wire::Verifier>> task = CommitAll(writer->who, file, 0, 0);
    absl::StatusOr<wire::Verifier> committed = co_await task;
    if (absl::IsCancelled(committed.status())) co_return;
    // A COMMIT that fails leaves the data to the next one. That of a file that is gone is let go.
    if (absl::IsAborted(committed.status())) GiveUpData(file, committed.status());
  }
  if (commit_timer_ == 0 && !client_.uncommitted().Files(absl::InfiniteFuture()).empty()) {
    CommitLater(kCommitAfter / 2, kCommitAfter);
  }
}

}  // namespace dafs::client
