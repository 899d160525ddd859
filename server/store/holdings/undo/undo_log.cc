#include "server/store/holdings/undo/undo_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/files/unique_fd.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/holdings/undo/undo_rows.h"
#include "server/store/system/errno_status.h"
#include "server/store/system/fd_path.h"
#include "server/store/system/identity.h"
#include "server/store/system/kill_switch.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::LockRange;
using wire::LockRanges;
using wire::Proc;

namespace {

constexpr uint64_t kChargedBlock = 4096;  // each range costs a row, too

// Opens the file with the server's own privilege, for this call only: a kept descriptor for writing
// would prevent its execution.
UniqueFd OpenWhole(const Object& file) {
  const ScopedPrivilege privilege;
  return UniqueFd(open(FdPath(file.path_fd()).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

int SizeOfFile(int fd, uint64_t* size) {
  struct stat st;
  if (fstat(fd, &st) != 0) return errno;
  *size = static_cast<uint64_t>(st.st_size);
  return 0;
}

int Resize(int fd, uint64_t size) {
  return ftruncate(fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
}

// Makes the bytes of the file that there are read as zeros.
int Zero(int fd, uint64_t first, uint64_t last) {
  uint64_t size = 0;
  if (int error = SizeOfFile(fd, &size); error != 0) return error;
  if (first >= size) return 0;
  last = std::min(last, size - 1);
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                static_cast<off_t>(last - first + 1)) == 0) {
    return 0;
  }
  if (errno != EOPNOTSUPP) return errno;
  const std::vector<char> zeros(65536);
  while (first <= last) {
    const size_t part = std::min<uint64_t>(zeros.size(), last - first + 1);
    const ssize_t n = pwrite(fd, zeros.data(), part, static_cast<off_t>(first));
    if (n <= 0) return n < 0 ? errno : EIO;
    first += static_cast<uint64_t>(n);
  }
  return 0;
}

DafsStatus StatusOfDatabase(const absl::Status& status) {
  if (status.ok()) return DafsStatus::kOk;
  LogError(absl::StrCat("undo log not changed: ", status.message()));
  return absl::IsResourceExhausted(status) ? DafsStatus::kNoSpc : DafsStatus::kServerFault;
}

}  // namespace

// ---- Entries -----------------------------------------------------------------------------------

uint64_t UndoLog::ChargeOf(const UndoRecord& record) {
  uint64_t bytes = 0;
  for (const LockRange& range : record.data.ranges()) {
    bytes += (range.last - range.first + kChargedBlock) / kChargedBlock * kChargedBlock;
  }
  return bytes;
}

const UndoLog::Entry* UndoLog::Find(const Entries& entries, const LockHolder& holder) {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& each) { return each.holder == holder; });
  return it != entries.end() ? &*it : nullptr;
}

std::optional<UndoLog::Entry> UndoLog::EntryOf(const ObjectKey& file,
                                               const LockHolder& holder) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto it = entries_.find(file);
  if (it == entries_.end()) return std::nullopt;
  const Entry* entry = Find(it->second, holder);
  return entry != nullptr ? std::optional(*entry) : std::nullopt;
}

uint64_t UndoLog::used_bytes() const {
  absl::ReaderMutexLock lock(&mutex_);
  return used_;
}

// ---- On disk -----------------------------------------------------------------------------------

absl::Status UndoLog::Load() {
  const absl::StatusOr<bool> exists = database_.OpenExisting();
  if (!exists.ok()) return database_.Unreadable(exists.status());
  if (!*exists) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  const absl::Status status = database_.Transact([&](sqlite3* connection) {
    return ReadUndoEntries(connection, [&](const ObjectKey& file, UndoEntry stored) {
      mutex_.AssertHeld();
      Entry entry{std::move(stored)};
      entry.charged = ChargeOf(entry.record);
      used_ += entry.charged;
      last_id_ = std::max(last_id_, entry.id);
      ids_.insert(entry.id);
      entries_[file].push_back(std::move(entry));
    });
  });
  return status.ok() ? status : database_.Unreadable(status);
}

void UndoLog::Tidy(const FileSystem& fs) {
  files_.Tidy(fs, [this](int64_t id) {
    absl::ReaderMutexLock lock(&mutex_);
    return ids_.contains(id);
  });
}

// ---- Saving ------------------------------------------------------------------------------------

bool UndoLog::MustSave(const ObjectKey& file, const LockHolder& holder, const LockRanges* bytes,
                       const UndoChange& change) const {
  static const UndoRecord& none = *new UndoRecord;
  absl::ReaderMutexLock lock(&mutex_);
  const auto it = entries_.find(file);
  const Entry* entry = it != entries_.end() ? Find(it->second, holder) : nullptr;
  const UndoRecord& record = entry != nullptr ? entry->record : none;
  if (bytes != nullptr && dafs::server::MustSave(record, *bytes, change)) return true;
  return record.size && FloorAfter(*record.size, bytes != nullptr ? *bytes : LockRanges(),
                                   change) != record.size->floor;
}

DafsStatus UndoLog::SaveLock(Object& file, int fd, const Lock& lock, const UndoChange& change,
                             uint64_t file_size, std::vector<Saving>* all) {
  Saving saving;
  Entry& entry = saving.entry;
  entry.holder = lock.holder;
  if (std::optional<Entry> known = EntryOf(file.key(), lock.holder)) entry = *std::move(known);
  std::optional<UndoRecord::Size>& size = entry.record.size;
  bool changed = false;
  if (size) {
    const uint64_t floor = FloorAfter(*size, lock.is_own ? lock.bytes : LockRanges(), change);
    changed = std::exchange(size->floor, floor) != floor;
  }
  UndoRecord& steps = saving.steps;
  if (lock.is_own) steps = StepsFor(entry.record, lock.bytes, change, file_size);
  if (steps.empty()) {
    if (changed) all->push_back(std::move(saving));
    return DafsStatus::kOk;
  }
  UndoRecord planned = entry.record;
  Add(planned, steps);
  const uint64_t charge = ChargeOf(planned);
  {
    absl::MutexLock reserving(&mutex_);
    saving.reserved = charge - std::min(charge, entry.charged);
    if (used_ + saving.reserved > most_bytes_) {
      LogWarning(
          absl::StrCat("a write under an auto-recovery lock is refused with NOSPC: the old "
                       "bytes of all such locks would need more than ",
                       most_bytes_ >> 20, " MiB; see --undo-space"));
      return DafsStatus::kNoSpc;
    }
    used_ += saving.reserved;
    saving.is_new = entry.id == 0;
    if (saving.is_new) ids_.insert(entry.id = ++last_id_);
  }
  const bool is_first = entry.record.data.empty();
  const int64_t id = entry.id;
  all->push_back(std::move(saving));
  Saving& kept = all->back();
  const int error = files_.Save(file.fs(), id, fd, is_first, &kept.steps.data, &kept.steps.zeros);
  if (error != 0) return StatusFromErrno(error);
  KillPoint(KillStep::kUndoSaved, Proc::kWriteInline);
  Add(kept.entry.record, kept.steps);
  return DafsStatus::kOk;
}

DafsStatus UndoLog::SaveLocks(Object& file, const std::vector<Lock>& locks,
                              const UndoChange& change, std::vector<Saving>* all) {
  int error = 0;
  const std::shared_ptr<const UniqueFd> fd = file.DataFd(/*write=*/false, &error);
  if (fd == nullptr) return StatusFromErrno(error);
  uint64_t size = 0;
  if (error = SizeOfFile(fd->get(), &size); error != 0) return StatusFromErrno(error);
  for (const Lock& lock : locks) {
    const DafsStatus status = SaveLock(file, fd->get(), lock, change, size, all);
    if (status == DafsStatus::kOk) continue;
    // Otherwise each attempt on a full disk would leave a file there. No row names them yet.
    for (const Saving& each : *all) {
      if (each.is_new) files_.Remove(file.fs(), each.entry.id);
    }
    return status;
  }
  if (all->empty()) return DafsStatus::kOk;
  const DafsStatus stored =
      StatusOfDatabase(database_.Transact([&](sqlite3* connection) -> absl::Status {
        for (const Saving& each : *all) {
          RETURN_IF_ERROR(WriteUndoEntry(connection, file.key(), each.entry, &each.steps));
        }
        return absl::OkStatus();
      }));
  if (stored == DafsStatus::kOk) KillPoint(KillStep::kUndoRow, Proc::kWriteInline);
  return stored;
}

DafsStatus UndoLog::Save(Object& file, const std::vector<Lock>& locks, const UndoChange& change) {
  absl::MutexLock saving(&SavingOf(file.key()));
  std::vector<Saving> all;
  const DafsStatus status = SaveLocks(file, locks, change, &all);
  absl::MutexLock lock(&mutex_);
  for (Saving& each : all) {
    used_ -= each.reserved;
    if (status != DafsStatus::kOk) {
      if (each.is_new) ids_.erase(each.entry.id);  // a file left by a failed transaction: Tidy
      continue;
    }
    used_ -= each.entry.charged;
    each.entry.charged = ChargeOf(each.entry.record);
    used_ += each.entry.charged;
    Entries& entries = entries_[file.key()];
    if (const Entry* old = Find(entries, each.entry.holder)) {
      const_cast<Entry&>(*old) = std::move(each.entry);
    } else {
      entries.push_back(std::move(each.entry));
    }
  }
  return status;
}

// ---- The end of a lock -------------------------------------------------------------------------

int UndoLog::Undo(Object& file, const LockHolder& holder, const LockRanges& undone,
                  const LockRanges& kept, absl::Mutex& appends, Change* change) {
  *change = Change();
  change->file = file.key();
  change->holder = holder;
  if (!EntryOf(file.key(), holder)) return 0;
  const UniqueFd fd = OpenWhole(file);
  if (!fd.valid()) return errno;
  uint64_t size = 0;
  UndoPlan plan;
  std::optional<Entry> entry;
  {
    absl::MutexLock lock(&appends);  // no other change of the size, or of the floor
    entry = EntryOf(file.key(), holder);
    if (!entry) return 0;  // the file was removed
    if (int error = SizeOfFile(fd.get(), &size); error != 0) return error;
    plan = PlanUndo(entry->record, undone, kept, size);
    if (plan.new_size && *plan.new_size < size) {
      if (int error = Resize(fd.get(), *plan.new_size); error != 0) return error;
    }
  }
  if (int error = files_.Restore(file.fs(), entry->id, fd.get(), plan.copies); error != 0) {
    return error;
  }
  for (const LockRange& range : plan.zeros) {
    if (int error = Zero(fd.get(), range.first, range.last); error != 0) return error;
  }
  KillPoint(KillStep::kUndoWritten, Proc::kLock);
  if (plan.new_size && *plan.new_size > size) {
    absl::MutexLock lock(&appends);
    if (int error = SizeOfFile(fd.get(), &size); error != 0) return error;
    if (size < *plan.new_size) {
      if (int error = Resize(fd.get(), *plan.new_size); error != 0) return error;
    }
  }
  if (fsync(fd.get()) != 0) return errno;
  KillPoint(KillStep::kUndoSynced, Proc::kLock);
  change->id = entry->id;
  change->after = std::move(plan.after);
  return 0;
}

bool UndoLog::HasSaved(const ObjectKey& file, const LockHolder& holder,
                       const LockRanges& bytes) const {
  const std::optional<Entry> entry = EntryOf(file, holder);
  return entry && (!Common(entry->record.data, bytes).empty() ||
                   !Common(entry->record.zeros, bytes).empty());
}

int UndoLog::Sync(Object& file) {
  const UniqueFd fd = OpenWhole(file);
  return fd.valid() && fdatasync(fd.get()) == 0 ? 0 : errno;
}

int UndoLog::Commit(Object& file, const LockHolder& holder, const LockRanges& kept,
                    Change* change) {
  *change = Change();
  if (!EntryOf(file.key(), holder)) return 0;
  const UniqueFd fd = OpenWhole(file);
  if (!fd.valid()) return errno;
  uint64_t size = 0;
  if (int error = SizeOfFile(fd.get(), &size); error != 0) return error;
  if (fdatasync(fd.get()) != 0) return errno;
  KillPoint(KillStep::kUndoSynced, Proc::kLocku);
  *change = Final(file.key(), holder, kept, size);
  return 0;
}

UndoLog::Change UndoLog::Final(const ObjectKey& file, const LockHolder& holder,
                               const LockRanges& kept, uint64_t file_size) const {
  Change change;
  change.file = file;
  change.holder = holder;
  if (const std::optional<Entry> entry = EntryOf(file, holder)) {
    change.id = entry->id;
    change.after = AfterCommit(entry->record, kept, file_size);
  }
  return change;
}

absl::Status UndoLog::Write(sqlite3* connection, Change* change) const {
  if (change->id == 0) return absl::OkStatus();
  change->is_written = true;
  return WriteUndoEntry(connection, change->file, {change->holder, change->id, change->after});
}

void UndoLog::Finish(const FileSystem& fs, const Change& change) {
  if (!change.is_written) return;
  {
    absl::MutexLock lock(&mutex_);
    Entries& all = entries_[change.file];
    const auto entry = std::find_if(all.begin(), all.end(),
                                    [&](const Entry& each) { return each.id == change.id; });
    if (entry != all.end()) {
      used_ -= entry->charged;
      entry->record = change.after;
      entry->charged = ChargeOf(entry->record);
      used_ += entry->charged;
      if (entry->record.empty()) {
        all.erase(entry);
        ids_.erase(change.id);
      }
    }
    if (all.empty()) entries_.erase(change.file);
  }
  if (change.after.empty()) files_.Remove(fs, change.id);
}

void UndoLog::Drop(const ObjectKey& key, const FileSystem* fs) {
  Entries dropped;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end()) return;
    dropped = std::move(it->second);
    entries_.erase(it);
    for (const Entry& entry : dropped) {
      used_ -= entry.charged;
      ids_.erase(entry.id);
    }
  }
  for (Entry& entry : dropped) entry.record = {};
  const absl::Status stored = database_.Transact([&](sqlite3* connection) -> absl::Status {
    for (const Entry& entry : dropped) RETURN_IF_ERROR(WriteUndoEntry(connection, key, entry));
    return absl::OkStatus();
  });
  if (!stored.ok()) LogError(absl::StrCat("undo log not changed: ", stored.message()));
  for (const Entry& entry : dropped) {
    if (fs != nullptr) files_.Remove(*fs, entry.id);
  }
}

}  // namespace dafs::server
