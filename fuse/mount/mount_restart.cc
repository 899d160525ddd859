// The restart of a mount (docs/restart.md): the old program leaves it to the new one.
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "fuse/mount/countdown.h"
#include "fuse/mount/mount.h"
#include "fuse/restart/handover.h"
#include "fuse/restart/successor.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::fuse {
namespace {

// How long a step may take. After that the restart is refused, and the mount goes on.
constexpr absl::Duration kServerWithin = absl::Seconds(2);
constexpr absl::Duration kStepWithin = absl::Seconds(5);
// While programs are still served, most data is committed in this time.
constexpr absl::Duration kCommitBefore = absl::Milliseconds(500);
constexpr absl::Duration kDrainPoll = absl::Milliseconds(2);
// A notification that takes longer waits for a lock.
constexpr absl::Duration kNotifiedWithin = absl::Milliseconds(10);

absl::Status Late(std::string_view what) {
  return absl::DeadlineExceededError(
      absl::StrCat(Text(what), " within ", absl::FormatDuration(kStepWithin)));
}

int64_t NowNs() { return absl::ToUnixNanos(Loop::Now()); }

}  // namespace

absl::Status Mount::HandOver(std::string program) {
  RETURN_IF_ERROR(CanHandOver(program));
  HandoverRecord record;
  record.asked_ns = NowNs();
  absl::Status status = Quiesce(record);
  if (status.ok()) status = Leave(record, program);
  if (!status.ok()) GoOn(record);
  return status;
}

absl::Status Mount::CanHandOver(const std::string& program) const {
  if (!means_.guardian.alive()) return absl::FailedPreconditionError("its guardian has ended");
  if (state_.kernel.wants_io_uring) {
    return absl::FailedPreconditionError(
        "requests arrive by io_uring, which the kernel does not pass on to another process; mount "
        "with io_uring=off");
  }
  return CheckSuccessor(program);
}

// First what can be done while programs are served, then the rest, for which they wait.
absl::Status Mount::Quiesce(HandoverRecord& record) {
  RETURN_IF_ERROR(AwaitSettled());
  RETURN_IF_ERROR(AskServer());
  RETURN_IF_ERROR(AwaitClosed());
  RETURN_IF_ERROR(DropCaches());
  RETURN_IF_ERROR(ReturnDelegations());
  const absl::Status ignored = CommitAll(kCommitBefore);
  record.blocked_ns = NowNs();
  RETURN_IF_ERROR(Drain());
  record.drained_ns = NowNs();
  RETURN_IF_ERROR(CommitAll(kStepWithin));
  record.committed_ns = NowNs();
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    for (const std::vector<std::byte>& request : workers_[i]->restart().TakeRetracted()) {
      record.waiting.push_back(
          {i, std::string(reinterpret_cast<const char*>(request.data()), request.size())});
    }
  }
  if (state_.caches.inodes.HasUnseenError() || client_.get().lost_data().any()) {
    return absl::FailedPreconditionError(
        "data of a file could not be written, and no fsync has reported that yet");
  }
  return absl::OkStatus();
}

absl::Status Mount::AskServer() {
  const auto answers = std::make_shared<Countdown>(workers_.size());
  for (auto& worker : workers_) {
    worker->restart().AskServer([answers](const absl::Status& status) {
      if (status.ok()) answers->Done();
    });
  }
  if (answers->Await(kServerWithin)) return absl::OkStatus();
  return absl::UnavailableError("the server does not answer");
}

// The next program would not know what a killed one has sent for a request that is sent again and
// unread.
absl::Status Mount::AwaitSettled() {
  const absl::Time end = Loop::Now() + kStepWithin;
  while (!SettleLeft()) {
    if (Loop::Now() > end || HasEnded()) {
      return absl::UnavailableError(
          "requests that were under way when mount.dafs was killed have not all been read again; "
          "try again in a few seconds");
    }
    absl::SleepFor(kDrainPoll);
  }
  return absl::OkStatus();
}

// While programs are served: otherwise they would wait for these.
absl::Status Mount::AwaitClosed() {
  const auto closed = std::make_shared<Countdown>(1);
  workers_[0]->restart().AwaitClosed([closed] { closed->Done(); });
  if (closed->Await(kStepWithin)) return absl::OkStatus();
  return Late("the server did not close what a killed mount.dafs had opened");
}

// The kernel keeps nothing from now on, and drops what it has: the new program does not know what
// that is, and the server announces no changes meanwhile. Programs are served, so no directory
// stays locked.
absl::Status Mount::DropCaches() {
  state_.caches.rules.KeepNothing(true);
  const auto suspended = std::make_shared<Countdown>(1);
  lease_keeper_->Suspend([suspended] { suspended->Done(); });
  if (!suspended->Await(kStepWithin)) return Late("the kernel did not drop what was promised");
  std::unique_ptr<PromiseBreaks> own;
  if (breaks_ == nullptr) {
    UniqueFd device(fcntl(device_.get(), F_DUPFD_CLOEXEC, 0));
    if (!device.valid()) return absl::ErrnoToStatus(errno, "/dev/fuse");
    ASSIGN_OR_RETURN(own, PromiseBreaks::Start(state_, std::move(device)));
  }
  const auto dropped = std::make_shared<Countdown>(1);
  (breaks_ != nullptr ? *breaks_ : *own).OnVoid([dropped] { dropped->Done(); });
  if (!dropped->Await(kStepWithin)) return Late("the kernel did not drop its caches");
  return absl::OkStatus();
}

// Also those that the server grants in answer to requests under way.
absl::Status Mount::ReturnDelegations() {
  client::Client& client = client_.get();
  const absl::Time end = Loop::Now() + kStepWithin;
  for (;;) {
    const client::Delegations::Counts counts = client.delegations().counts();
    if (counts.read + counts.write == 0) return absl::OkStatus();
    if (Loop::Now() > end) return Late("the delegations were not returned");
    client.delegations().returns().EndAll();
    workers_[0]->restart().ReturnDelegations();
    absl::SleepFor(kDrainPoll);
  }
}

// A notification may wait for a lock of the kernel whose holder waits for a request that is not
// read. This process could then never end. So such a notification must end first, while requests
// are read.
absl::Status Mount::Drain() {
  const absl::Time end = Loop::Now() + kStepWithin;
  for (;;) {
    const auto drained = std::make_shared<Countdown>(workers_.size());
    for (auto& worker : workers_) worker->restart().Pause([drained] { drained->Done(); });
    if (!drained->Await(end - Loop::Now()) || !state_.write_behind.idle()) {
      return Late("requests of programs were not answered");
    }
    if (IsQuiet(kNotifiedWithin)) return ReturnDelegations();
    if (Loop::Now() > end) return Late("the kernel did not drop its caches");
    ServeAgain({});
    IsQuiet(kStepWithin);
  }
}

// Waits until no notification is in progress.
bool Mount::IsQuiet(absl::Duration most) const {
  const absl::Time end = Loop::Now() + most;
  while (!state_.notifier->idle()) {
    if (Loop::Now() > end) return false;
    absl::SleepFor(absl::Microseconds(200));
  }
  return true;
}

absl::Status Mount::CommitAll(absl::Duration most) {
  const auto committed = std::make_shared<Countdown>(workers_.size());
  for (auto& worker : workers_) worker->restart().Commit([committed] { committed->Done(); });
  if (committed->Await(most) && client_.get().uncommitted().Files().empty()) {
    return absl::OkStatus();
  }
  return Late("the server did not write all data to its disk");
}

absl::Status Mount::Leave(HandoverRecord& record, const std::string& program) {
  if (!IsQuiet(kNotifiedWithin)) return Late("the kernel did not drop its caches");
  state_.notifier->Stop();
  record.mount_point = facts_.mount_point;
  record.by_mount8 = means_.by_mount8;
  record.requests_by = facts_.requests_by;
  record.restarts = restarts_.count;
  SaveMount(state_, client_.get(), record);
  ASSIGN_OR_RETURN(const UniqueFd memfd, WriteRecord(record));
  if (!means_.guardian.HandOver(memfd.get(), program)) {
    return absl::FailedPreconditionError("its guardian has ended");
  }
  for (auto& worker : workers_) worker->restart().HandOver();
  left_ = true;
  return absl::OkStatus();
}

bool Mount::HasEnded() const {
  pollfd ended = {.fd = ended_.get(), .events = POLLIN, .revents = 0};
  return poll(&ended, 1, 0) > 0;
}

void Mount::ServeAgain(const HandoverRecord& record) {
  if (HasEnded()) return;  // unmounted meanwhile: its workers answer nothing
  for (size_t i = 0; i < workers_.size(); ++i) {
    std::vector<std::vector<std::byte>> requests = record.WaitingOf(i);
    for (auto& request : workers_[i]->restart().TakeRetracted())
      requests.push_back(std::move(request));
    workers_[i]->Resume(UniqueFd(), std::move(requests));
  }
}

// Nothing was given up: requests are served again, and promises are requested.
void Mount::GoOn(const HandoverRecord& record) {
  state_.notifier->Resume();
  state_.caches.rules.KeepNothing(false);
  ServeAgain(record);
  lease_keeper_->Resume();
}

}  // namespace dafs::fuse
