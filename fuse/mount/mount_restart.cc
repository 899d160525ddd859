// The restart of a mount (docs/restart.md): the old program leaves it, the new one continues it.
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "fuse/kernel/channel.h"
#include "fuse/mount/mount.h"
#include "fuse/restart/handover.h"
#include "fuse/restart/left_data.h"
#include "fuse/restart/successor.h"
#include "runtime/log/log.h"
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
// Requests that wait in the kernel are read in this time.
constexpr absl::Duration kReadWithin = absl::Seconds(1);
// A notification that takes longer waits for a lock.
constexpr absl::Duration kNotifiedWithin = absl::Milliseconds(10);

// Awaits something of each worker. Shared with the workers, because the wait may end first.
class Countdown {
 public:
  explicit Countdown(size_t count) : left_(count) {}
  void Done() {
    absl::MutexLock lock(&mutex_);
    --left_;
  }
  bool Await(absl::Duration most) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(
                                       +[](size_t* left) { return *left == 0; }, &left_),
                                   most);
  }

 private:
  absl::Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Late(std::string_view what) {
  return absl::DeadlineExceededError(
      absl::StrCat(Text(what), " within ", absl::FormatDuration(kStepWithin)));
}

int64_t NowNs() { return absl::ToUnixNanos(Loop::Now()); }

double Milliseconds(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e6;
}

}  // namespace

// ---- The old program ---------------------------------------------------------------------------

absl::Status Mount::HandOver(std::string program) {
  RETURN_IF_ERROR(CanHandOver(program));
  if (!SettleLeft()) {
    return absl::UnavailableError(
        "requests that were under way when mount.dafs was killed have not all been read again; try "
        "again in a few seconds");
  }
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
  RETURN_IF_ERROR(AskServer());
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

void Mount::ServeAgain(const HandoverRecord& record) {
  pollfd ended = {.fd = ended_.get(), .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, 0) > 0) return;  // unmounted meanwhile: its workers answer nothing
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

// ---- A kill ------------------------------------------------------------------------------------

void Mount::MakeLiveRecord() {
  if (!means_.guardian.valid() || state_.kernel.wants_io_uring) return;
  absl::StatusOr<std::unique_ptr<LiveRecord>> live =
      LiveRecord::Create(LiveDataBytes(state_.options, client_.get().options()));
  if (!live.ok()) {
    LogWarning(absl::StrCat(state_.options.source.text,
                            ": the mount ends if mount.dafs is killed: ", live.status().message()));
    return;
  }
  live_ = *std::move(live);
  live_client_ = std::make_unique<LiveClient>(*live_);
  state_.caches.inodes.KeepIn(live_.get());
  state_.live_files = LiveFiles(live_.get());
  state_.lock_owners.RecordIn(state_.live_files);
  client::Client& client = client_.get();
  client.RecordIn(live_client_.get());
  state_.in_flight = std::make_unique<client::InFlightTable>(live_->in_flight());
}

void Mount::PrepareForKill() {
  if (live_ == nullptr) return;
  HandoverRecord record;
  record.mount_point = facts_.mount_point;
  record.by_mount8 = means_.by_mount8;
  record.requests_by = facts_.requests_by;
  record.restarts = restarts_.count;
  SaveBasis(state_, client_.get(), record);
  const absl::StatusOr<UniqueFd> memfd = WriteRecord(record);
  if (memfd.ok()) means_.guardian.Survive(memfd->get(), live_->memfd(), means_.program);
}

// Before the first request: what the kernel knows from the killed process is not known here.
Outcome Mount::TakeOver(std::span<const UniqueFd> devices, const HandoverRecord& record) {
  UniqueFd device(fcntl(devices.back().get(), F_DUPFD_CLOEXEC, 0));
  if (!device.valid()) return {ExitCode::kSystem, std::string("/dev/fuse: ") + strerror(errno)};
  KernelChannel channel(std::move(device));
  // Before the names: a node without names may be on its way out of the kernel, which waits for its
  // pages and so for requests, and ForgetAttributes waits for the end of such a node.
  absl::flat_hash_set<uint64_t> open;
  for (const HandoverRecord::File& file : record.files) {
    if (open.insert(file.nodeid).second) state_.left.outdated.Add(file.nodeid);
  }
  for (const InodeTable::Saved::Node& node : record.inodes.nodes) {
    if (!open.contains(node.nodeid)) channel.ForgetAttributes(node.nodeid);
  }
  if (!channel.ForgetAllNames() || !channel.Resend()) {
    return {ExitCode::kSystem, "the kernel cannot pass its requests to another process"};
  }
  state_.left.resent.Expect();
  is_settled_ = false;
  return {};
}

bool Mount::IsRequestWaiting() const {
  pollfd wait = {.fd = device_.get(), .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) > 0;
}

// Waits until the workers have begun to carry out all requests that they have read. Returns false
// if that takes too long.
bool Mount::CatchUp() {
  const auto caught_up = std::make_shared<Countdown>(workers_.size());
  for (auto& worker : workers_) worker->restart().CatchUp([caught_up] { caught_up->Done(); });
  return caught_up->Await(kReadWithin);
}

// After the requests that the kernel had until now were read: the answers to GETATTRs among them
// are accepted (see OutdatedFiles).
void Mount::ForgetOutdated() {
  const absl::Time end = Loop::Now() + kReadWithin;
  while (IsRequestWaiting() && Loop::Now() < end) absl::SleepFor(kDrainPoll / 4);
  CatchUp();
  UniqueFd device(fcntl(device_.get(), F_DUPFD_CLOEXEC, 0));
  if (!device.valid()) return;  // they keep their time
  KernelChannel channel(std::move(device));
  for (const uint64_t nodeid : state_.left.outdated.TakeUnasked()) channel.ForgetAttributes(nodeid);
}

// Closes what the killed program had opened for requests that the kernel does not send again. Does
// nothing and returns false while a request that it does send again may be unread. No restart is
// possible before: the next program would not know what was sent for such a request.
bool Mount::SettleLeft() {
  if (is_settled_) return true;
  if ((state_.left.resent.are_unread() && IsRequestWaiting()) || !CatchUp()) return false;
  is_settled_ = true;
  std::vector<uint64_t> dropped;
  if (state_.in_flight != nullptr) dropped = state_.in_flight->Left();
  // The answer may have reached the kernel, and the file be in use, though the operation was not
  // ended. An open without a file is in `unused`.
  std::erase_if(dropped, [&](uint64_t request) { return state_.left.opens.Has(request); });
  std::vector<wire::StateId> unused = state_.left.opens.TakeDropped();
  if (!unused.empty() || !dropped.empty()) {
    workers_[0]->restart().Close(std::move(dropped), std::move(unused));
  }
  return true;
}

// ---- The new program ---------------------------------------------------------------------------

// Opens that the killed program was about to close, and its delegations, which it may have used in
// ways that the record does not have.
void Mount::TidyUp(const HandoverRecord& record) {
  std::vector<wire::StateId> unused;
  for (const HandoverRecord::Open& open : record.opens) {
    if (open.closing) unused.push_back(open.name);
  }
  if (!unused.empty()) workers_[0]->restart().Close({}, std::move(unused));
  if (!record.delegations.empty()) workers_[0]->restart().ReturnDelegations();
}

// Restores what the other program had. `live`: the live record of a killed one, or not valid.
Outcome Mount::Restore(const HandoverRecord& record, const UniqueFd& live) {
  MakeLiveRecord();
  if (live.valid() && state_.in_flight != nullptr) {
    state_.in_flight->TakeLeft(LiveRecord::ReadInFlight(live.get()));
  }
  absl::Status status = RestoreMount(record, state_, client_.get());
  if (status.ok() && live.valid()) {
    status = RestoreData(record, live.get(), live_.get(), client_.get());
  }
  if (status.ok()) return {};
  return {ExitCode::kInternal, std::string(status.message())};
}

Outcome Mount::Continue(const HandoverRecord& record, GuardianLink::Inheritance inheritance) {
  restarts_ = {.count = record.restarts + 1, .last = absl::Now()};
  facts_.mount_point = record.mount_point;
  facts_.requests_by = record.requests_by;
  if (inheritance.devices.size() != state_.options.nconnect) {
    return {ExitCode::kInternal, "the guardian holds the descriptors of another mount"};
  }
  Outcome outcome = WatchEnd();
  if (outcome.ok()) {
    outcome = client_.MakeAgain(state_.options, may_lock_, record, std::move(inheritance.lock));
  }
  if (!outcome.ok()) return outcome;
  const bool killed = inheritance.live.valid();
  if (outcome = Restore(record, inheritance.live); !outcome.ok()) return outcome;
  state_.kernel.init.Answered(0);
  // Programs are served before the server has answered whether it gives promises.
  state_.caches.rules.KeepNothing(true);
  if (killed) outcome = TakeOver(inheritance.devices, record);
  if (outcome.ok()) outcome = StartWorkers();
  if (outcome.ok()) desk_.Open(means_.guardian.valid(), restarts_.count);
  PrepareForKill();
  if (outcome.ok()) outcome = ServeKernel(std::move(inheritance.devices), &record);
  if (!outcome.ok()) return outcome;
  if (killed) ForgetOutdated();
  lease_keeper_->SetRequestsBy(facts_.requests_by);
  for (const InodeTable::Saved::Node& node : record.inodes.nodes) {
    if (!killed || node.type != wire::ObjectType::kDir) continue;
    state_.notifier->DropListing(node.nodeid, [] {});
  }
  SettleLeft();
  TidyUp(record);
  const int64_t now = NowNs();
  AwaitPromises();
  state_.caches.rules.KeepNothing(false);
  LogContinued(record, killed, now);
  return {};
}

void Mount::LogContinued(const HandoverRecord& record, bool killed, int64_t now_ns) const {
  if (killed) {
    LogWarning(absl::StrCat(state_.options.source.text, ": ", facts_.mount_point,
                            " continues after mount.dafs was killed, with ", record.files.size(),
                            " open files"));
    return;
  }
  LogNotice(absl::StrFormat(
      "restarted %s on %s in %.0f ms; programs waited %.0f ms: %.0f for requests under way, %.0f "
      "for the server's disk, %.0f for the new program",
      state_.options.source.text, facts_.mount_point, Milliseconds(record.asked_ns, now_ns),
      Milliseconds(record.blocked_ns, now_ns), Milliseconds(record.blocked_ns, record.drained_ns),
      Milliseconds(record.drained_ns, record.committed_ns),
      Milliseconds(record.committed_ns, now_ns)));
}

}  // namespace dafs::fuse
