#include "server/store/parts/rollbacks.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/text.h"
#include "server/store/access/return_if_not_ok.h"
#include "server/store/parts/store_parts.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/identity.h"
#include "server/store/system/kill_switch.h"
#include "server/store/system/statx.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

using wire::DafsStatus;

Rollbacks::~Rollbacks() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Rollbacks::Wake() {
  absl::MutexLock lock(&mutex_);
  wanted_ = true;
  if (!thread_.joinable() && !ends_) thread_ = std::thread([this] { Run(); });
}

void Rollbacks::AwaitIdle() {
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this] {
    mutex_.AssertReaderHeld();
    return !wanted_ && !is_starting_ && under_way_.empty();
  };
  mutex_.Await(absl::Condition(&is_idle));
}

void Rollbacks::Run() {
  const auto may_go_on = [this] {
    mutex_.AssertReaderHeld();
    return wanted_ || ends_;
  };
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&may_go_on));
      if (ends_) return;
      wanted_ = false;
      is_starting_ = true;
    }
    StartAll();
    // Some file may be under way on another thread, or must be tried again.
    const bool again = !store_.persistent_locks.UndoingFiles().empty();
    absl::MutexLock lock(&mutex_);
    is_starting_ = false;
    if (!again) continue;
    wanted_ = true;
    mutex_.AwaitWithTimeout(absl::Condition(&ends_), kRetryAfter);
  }
}

void Rollbacks::StartAll() {
  for (const ObjectKey& file : store_.persistent_locks.UndoingFiles()) {
    const std::optional<size_t> index = store_.mounts->ExportOf(file.fshandle());
    {
      absl::MutexLock lock(&mutex_);
      // An unknown export does not answer yet, or is not served any more.
      if (ends_ || !index || !under_way_.insert(file).second) continue;
    }
    store_.threads.Run(*index, [this, file] { UndoFile(file); });
  }
}

void Rollbacks::UndoFile(const ObjectKey& file) {
  std::string why;
  const bool done = TryFile(file, &why);
  absl::MutexLock lock(&mutex_);
  under_way_.erase(file);
  if (done) {
    failed_.erase(file);
  } else if (failed_.insert(file).second) {
    LogError(
        absl::StrCat("the changes of a failed client are not undone yet, and requests for that "
                     "part of the file wait: ",
                     why, "; tries again; dafsctl server locks --release gives it up"));
  }
}

DafsStatus Rollbacks::GiveUp(const ObjectKey& file, size_t* count) {
  *count = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto is_free = [&] {
      mutex_.AssertReaderHeld();
      return !under_way_.contains(file);
    };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&is_free), kPatience)) return DafsStatus::kDelay;
    if (!failed_.contains(file)) return DafsStatus::kOk;
    under_way_.insert(file);
  }
  const DafsStatus status = GiveUpFile(file, count);
  absl::MutexLock lock(&mutex_);
  under_way_.erase(file);
  if (status == DafsStatus::kOk) failed_.erase(file);
  return status;
}

DafsStatus Rollbacks::GiveUpFile(const ObjectKey& key, size_t* count) {
  RestoreOwnIdentity();
  ObjectRef file = store_.cache.Find(key);
  if (file == nullptr) STORE_RETURN_IF_NOT_OK(store_.objects.Open(store_.mac.Seal(key), &file));
  struct statx stx;
  if (Statx(file->path_fd(), &stx) != 0) return StatusFromErrno();
  std::vector<PersistentLocks::Undoing> all;
  STORE_RETURN_IF_NOT_OK(store_.persistent_locks.BeginUndo(key, &all));
  for (const PersistentLocks::Undoing& undoing : all) {
    UndoLog::Change change =
        store_.undo_log.Final(key, undoing.holder, FileBytes(undoing.kept), stx.stx_size);
    STORE_RETURN_IF_NOT_OK(store_.persistent_locks.Undone(key, undoing, [&](sqlite3* connection) {
      return store_.undo_log.Write(connection, &change);
    }));
    store_.undo_log.Finish(file->fs(), change);
    ++*count;
  }
  return DafsStatus::kOk;
}

bool Rollbacks::TryFile(const ObjectKey& key, std::string* why) {
  RestoreOwnIdentity();
  std::vector<PersistentLocks::Undoing> all;
  if (store_.persistent_locks.BeginUndo(key, &all) != DafsStatus::kOk) {
    *why = "the state directory cannot be written";
    return false;
  }
  ObjectRef file = store_.cache.Find(key);
  if (file == nullptr) {
    const DafsStatus status = store_.objects.Open(store_.mac.Seal(key), &file);
    if (status == DafsStatus::kStale) {
      LogNotice("the changes of a failed client are not undone: the file was removed");
      store_.undo_log.Drop(key, nullptr);
      store_.persistent_locks.Drop(key);
      return true;
    }
    if (status != DafsStatus::kOk) {
      *why = absl::StrCat("the file cannot be opened: ", std::string(wire::Name(status)));
      return false;
    }
  }
  // Writers that have looked before the lock failed.
  { absl::MutexLock writers(&store_.object_locks.AppendLock(key)); }
  store_.announcements.RecallAll(key);
  for (const PersistentLocks::Undoing& undoing : all) {
    if (!TryLock(*file, undoing, why)) return false;
  }
  return true;
}

bool Rollbacks::TryLock(Object& file, const PersistentLocks::Undoing& undoing, std::string* why) {
  const ObjectKey key = file.key();
  UndoLog::Change change;
  std::optional<FileChange> changing(std::in_place, store_.exported, key, UndoChange{0, UINT64_MAX},
                                     /*resizes=*/true);
  const int error =
      store_.undo_log.Undo(file, undoing.holder, FileBytes(undoing.undone), FileBytes(undoing.kept),
                           store_.object_locks.AppendLock(key), &change);
  file.change().Modified();
  changing.reset();
  if (error != 0) {
    *why = std::strerror(error);
    return false;
  }
  // Clients may have been promised the attributes that the file had before.
  if (change.id != 0) store_.promise_ends.EndAll();
  const DafsStatus stored = store_.persistent_locks.Undone(key, undoing, [&](sqlite3* connection) {
    return store_.undo_log.Write(connection, &change);
  });
  if (stored != DafsStatus::kOk) {
    *why = "the state directory cannot be written";
    return false;
  }
  KillPoint(KillStep::kUndoDeleted, wire::Proc::kLock);
  store_.undo_log.Finish(file.fs(), change);
  if (change.id != 0) {
    LogNotice(absl::StrCat("the unfinished changes of ", Text(undoing.holder.client_name),
                           " to a file are undone"));
  }
  return true;
}

}  // namespace dafs::server
