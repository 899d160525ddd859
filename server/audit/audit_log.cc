#include "server/audit/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/audit/audit_line.h"

namespace dafs::server {
namespace {

// How often the server's log says that records are lost.
constexpr absl::Duration kSayEvery = absl::Minutes(1);

// O_NONBLOCK: a FIFO without a reader must not hold the server; it is refused below.
absl::StatusOr<UniqueFd> OpenFile(const std::string& path) {
  UniqueFd file(open(path.c_str(),
                     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  const auto refuse = [&path](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("--audit ", path, ": ", why));
  };
  if (!file.valid()) {
    return refuse(absl::StrCat(std::strerror(errno), "; name a file in a directory that exists"));
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return refuse("no regular file");
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refuse(absl::StrCat("others can write it; chown it to user ", geteuid(), ", chmod 600"));
  }
  // Its other name may be in an export.
  if (info.st_nlink > 1) return refuse("it has another hard link; name a new file");
  return file;
}

uint64_t RecordsIn(std::string_view lines) {
  return static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const AuditOptions& options) {
  UniqueFd file;
  if (options.destination != kAuditToSyslog) {
    ASSIGN_OR_RETURN(file, OpenFile(options.destination));
  }
  auto log = std::unique_ptr<AuditLog>(new AuditLog(options, std::move(file)));
  log->thread_ = std::thread([log = log.get()] { log->Serve(); });
  return log;
}

void AuditLog::Write(const std::string& line) {
  absl::MutexLock lock(&mutex_);
  ++counts_.records;
  if (queue_.size() + line.size() > options_.queue_bytes) {
    ++counts_.dropped;
    ++without_room_;
    return;
  }
  queue_.append(line);
}

void AuditLog::Reopen() {
  absl::MutexLock lock(&mutex_);
  reopens_at_ = queue_.size();
}

bool AuditLog::Stop(absl::Time deadline) {
  if (!thread_.joinable()) return true;
  {
    absl::MutexLock lock(&mutex_);
    is_ending_ = true;
    if (!mutex_.AwaitWithDeadline(absl::Condition(&has_ended_), deadline)) return false;
  }
  thread_.join();
  return true;
}

AuditLog::Counts AuditLog::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

void AuditLog::Serve() {
  const auto has_work = [this] {
    mutex_.AssertHeld();
    return is_ending_ || reopens_at_.has_value() || !queue_.empty();
  };
  for (bool is_last = false; !is_last;) {
    std::string lines;
    uint64_t lost = 0;
    std::optional<size_t> reopens_at;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      lines.swap(queue_);
      lost = std::exchange(without_room_, 0);
      reopens_at = std::exchange(reopens_at_, std::nullopt);
      is_last = is_ending_;
    }
    const std::string_view all = lines;
    const size_t old_bytes = reopens_at.value_or(all.size());
    uint64_t failed = Put(all.substr(0, old_bytes));
    if (reopens_at.has_value()) OpenAgain();
    failed += Put(all.substr(old_bytes));
    if (lost + failed > 0) SayDropped(lost + failed, absl::Now());
    absl::MutexLock lock(&mutex_);
    counts_.dropped += failed;
    has_ended_ = is_last;
  }
}

void AuditLog::OpenAgain() {
  if (!file_.valid()) return;  // syslog
  absl::StatusOr<UniqueFd> file = OpenFile(options_.destination);
  if (!file.ok()) {
    return LogError(
        absl::StrCat(file.status().message(), "; records go to the file that was open before"));
  }
  file_ = *std::move(file);
  is_torn_ = false;
}

uint64_t AuditLog::Put(std::string_view lines) {
  if (lines.empty()) return 0;
  if (!file_.valid()) {
    for (std::string_view rest = lines; !rest.empty();) {
      const size_t size = std::min(rest.find('\n'), rest.size());
      syslog(LOG_AUTHPRIV | LOG_INFO, "audit: %.*s", static_cast<int>(size), rest.data());
      rest.remove_prefix(std::min(size + 1, rest.size()));
    }
    return 0;
  }
  size_t written = 0;
  const absl::Status status = PutInFile(lines, &written);
  const std::string_view rest = lines.substr(written);
  if (written > 0) is_torn_ = lines[written - 1] != '\n';
  if (!status.ok()) LogError(std::string(status.message()));
  return RecordsIn(rest);
}

absl::Status AuditLog::PutInFile(std::string_view lines, size_t* written) const {
  // An end for the record that an earlier error has cut off.
  if (is_torn_ && write(file_.get(), "\n", 1) != 1) {
    return absl::UnavailableError(
        absl::StrCat("--audit ", options_.destination, ": ", std::strerror(errno)));
  }
  while (*written < lines.size()) {
    const ssize_t count = write(file_.get(), lines.data() + *written, lines.size() - *written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::UnavailableError(
          absl::StrCat("--audit ", options_.destination, ": ", std::strerror(errno)));
    }
    *written += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

void AuditLog::SayDropped(uint64_t count, absl::Time now) {
  AuditLine line(now, AuditClass::kAdmin, "AUDIT_DROPPED");
  line.Add("count", count);
  Put(std::move(line).Take());
  unsaid_ += count;
  if (now - said_ < kSayEvery) return;
  said_ = now;
  LogWarning(absl::StrCat("--audit ", options_.destination, ": ", std::exchange(unsaid_, 0),
                          " records were dropped; a faster file system, or fewer "
                          "--audit-classes, would keep them"));
}

}  // namespace dafs::server
