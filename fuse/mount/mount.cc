#include "fuse/mount/mount.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "fuse/kernel/labels.h"
#include "fuse/mount/attach/mount_syscall.h"
#include "fuse/mount/errors/mount_error.h"
#include "fuse/mount/process/shared_directories.h"
#include "runtime/log/log.h"
#include "runtime/loop/cpu_latency.h"

namespace dafs::fuse {
namespace {

// The kernel sends INIT as soon as it has mounted.
constexpr absl::Duration kInitWait = absl::Seconds(10);
// How often it is checked whether the workers have read what a killed program has left.
constexpr absl::Duration kSettlePause = absl::Seconds(1);
// The end of a mount takes less (see worker_ending.h). alarm(2) ends the process if a thread hangs.
constexpr unsigned kEndWithinSeconds = 15;

Outcome SystemError(const std::string& what) {
  return {ExitCode::kSystem, what + ": " + std::strerror(errno)};
}

// For poll(2).
int MillisecondsUntil(absl::Time when) {
  if (when == absl::InfiniteFuture()) return -1;
  const absl::Duration left = std::max(when - Loop::Now(), absl::ZeroDuration());
  return static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
}

// The users who have sessions, the last active one first.
std::vector<client::UserReport> ReportUsers(const UserClients* users) {
  std::vector<client::UserReport> reports;
  if (users == nullptr) return reports;
  const absl::Time now = Loop::Now();
  for (const std::shared_ptr<UserClient>& user : users->All()) {
    const absl::Time last = user->client->last_activity();
    reports.push_back({.uid = user->uid,
                       .opens = user->client->opens().size(),
                       .quiet = last == absl::UnixEpoch() ? absl::InfiniteDuration() : now - last});
  }
  std::sort(reports.begin(), reports.end(),
            [](const auto& a, const auto& b) { return a.quiet < b.quiet; });
  return reports;
}

}  // namespace

Mount::Mount(const Options& options, const EndSignals& signals, const Daemon& daemon,
             const Means& means, bool may_lock)
    : state_(options), may_lock_(may_lock), signals_(signals), daemon_(daemon), means_(means) {
  state_.kernel.selinux = KernelHasSelinux();
}

Mount::~Mount() {
  alarm(kEndWithinSeconds);
  for (auto& worker : workers_) worker->Stop();
  lease_keeper_.reset();
  breaks_.reset();
  if (state_.notifier != nullptr) state_.notifier->Stop();
  for (auto& worker : workers_) worker->Join();  // they post to each other's loops
  workers_.clear();
  // A signal that has arrived since is for the program that continues the mount.
  if (left_ && !signals_.Wait(daemon_, absl::ZeroDuration())) means_.guardian.End();
}

void Mount::Detach() { DetachMount(facts_.mount_point); }

Outcome Mount::Begin() {
  Outcome outcome = CheckMountPoint(state_.options);
  if (outcome.ok()) outcome = WatchEnd();
  if (outcome.ok()) outcome = client_.Make(state_.options, may_lock_);
  state_.users = client_.users();
  if (outcome.ok()) outcome = StartWorkers();
  if (outcome.ok()) outcome = FindRoot();
  if (!outcome.ok() || state_.options.fake) return outcome;
  return Attach();
}

Outcome Mount::WatchEnd() {
  ended_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ended_.valid()) return SystemError("eventfd");
  return {};
}

Outcome Mount::StartWorkers() {
  state_.cpu_latency = CpuLatency::For(state_.options.cpu_latency, IdleFactsOfMachine(),
                                       CpuLatency::kDevice, &facts_.cpu_latency);
  for (uint32_t i = 0; i < state_.options.nconnect; ++i) {
    absl::StatusOr<std::unique_ptr<Worker>> worker =
        Worker::Start(state_, client_.get(), [fd = ended_.get()] {
          uint64_t one = 1;
          [[maybe_unused]] ssize_t written = write(fd, &one, sizeof(one));
        });
    if (!worker.ok()) {
      return {ExitCode::kSystem, std::string(worker.status().message())};
    }
    workers_.push_back(*std::move(worker));
  }
  state_.interrupt_all = [this](uint64_t unique) {
    for (auto& worker : workers_) worker->Interrupt(unique);
  };
  return {};
}

Outcome Mount::FindRoot() {
  struct Answer {
    absl::Notification done;
    Worker::Root root;
  };
  // Shared with the worker, because a signal ends this function early.
  auto answer = std::make_shared<Answer>();
  workers_[0]->FindRoot([answer](Worker::Root root) {
    answer->root = std::move(root);
    answer->done.Notify();
  });
  while (!answer->done.WaitForNotificationWithTimeout(absl::Milliseconds(100))) {
    if (!signals_.Wait(daemon_, absl::ZeroDuration())) return Interrupted();
  }
  const Worker::Root& root = answer->root;
  if (!root.connected.ok()) {
    Outcome outcome = ConnectError(state_.options, root.connected);
    if (state_.options.proto == Proto::kRdma && !HasRdmaDevice()) outcome.may_pass = false;
    return outcome;
  }
  facts_.session = root.session;
  if (!root.node.ok()) return ExportError(state_.options, root.node.status());
  if (root.node->attributes.object_type != wire::ObjectType::kDir) {
    return RootTypeError(state_.options, root.node->attributes.object_type);
  }
  state_.caches.inodes.SetRoot(root.node->handle, root.node->attributes);
  DecideWhoChecks();
  return {};
}

// The kernel compares users of this machine with owners and modes of the server. If the server maps
// all users to one, that check would refuse what the server permits, so it is off. All users then
// have the same rights, so the kernel's caches reveal nothing to a user without the right.
// The kernel checks either all of a mount or nothing. If only some of the exports below the root
// map all users, it checks: otherwise it would reveal cached files of the other exports.
void Mount::DecideWhoChecks() {
  const auto& limits = client_.get().limits();
  facts_.squashed = limits.squashed.load(std::memory_order_relaxed);
  facts_.squashed_in_part = limits.squashed_in_part.load(std::memory_order_relaxed);
  // With a session for each user, what the server does with this machine says nothing about them.
  if (state_.users != nullptr) return;
  if (facts_.squashed && !state_.options.default_permissions_given) {
    state_.kernel.default_permissions = false;
  }
}

Outcome Mount::Attach() {
  rings_.Make(workers_);
  Options options = state_.options;
  options.default_permissions = state_.kernel.default_permissions;
  MountResult mounted = MountFuse(options);
  if (!mounted.outcome.ok()) return mounted.outcome;
  facts_.mount_point = mounted.mount_point;
  std::vector<UniqueFd> devices;
  // No name is known yet, so this only shows whether the kernel can forget all names.
  UniqueFd device(fcntl(mounted.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (KernelChannel(std::move(device)).ForgetAllNames()) MakeLiveRecord();
  Outcome outcome = CloneDevices(std::move(mounted.fd), &devices);
  if (outcome.ok()) outcome = ServeKernel(std::move(devices), nullptr);
  if (outcome.ok()) outcome = AwaitInit();
  if (outcome.ok()) outcome = rings_.Start(workers_);
  if (outcome.ok()) {
    facts_.requests_by = rings_.RequestsBy();
    lease_keeper_->SetRequestsBy(facts_.requests_by);
    desk_.Open(means_.guardian.valid(), 0);
    PrepareForKill();
    // A sequential reader then has several reads outstanding.
    SetReadAhead(facts_.mount_point, std::max(4 * state_.options.rsize, 1u << 20));
  }
  if (!outcome.ok()) Detach();
  return outcome;
}

// Each worker reads requests from a clone of `device`, and the last one from `device` itself. The
// guardian holds them, too.
Outcome Mount::CloneDevices(UniqueFd device, std::vector<UniqueFd>* devices) {
  for (size_t i = 1; i < workers_.size(); ++i) {
    devices->push_back(KernelChannel::CloneDevice(device.get()));
    if (!devices->back().valid()) return SystemError("/dev/fuse");
  }
  devices->push_back(std::move(device));
  if (!means_.guardian.valid()) return {};
  std::vector<int> numbers;
  for (const UniqueFd& one : *devices) numbers.push_back(one.get());
  if (!means_.guardian.Keep(numbers, client_.lock())) {
    LogWarning(absl::StrCat(state_.options.source.text, ": ", facts_.mount_point,
                            " cannot be restarted: its guardian has ended"));
    means_.guardian = GuardianLink();
  }
  return {};
}

// `record`: of the mount that is continued; null: it is a new one.
Outcome Mount::ServeKernel(std::vector<UniqueFd> devices, const HandoverRecord* record) {
  UniqueFd own(fcntl(devices.back().get(), F_DUPFD_CLOEXEC, 0));
  device_ = UniqueFd(fcntl(devices.back().get(), F_DUPFD_CLOEXEC, 0));
  if (!own.valid() || !device_.valid()) return SystemError("/dev/fuse");
  state_.notifier = std::make_unique<Notifier>(std::move(own));
  if (live_ != nullptr) {  // a kill must end this process at once
    absl::StatusOr<std::unique_ptr<NotificationRelay>> relay =
        NotificationRelay::Start(device_.get());
    if (relay.ok()) {
      state_.notifier->SendBy(*std::move(relay));
    } else {
      LogWarning(
          absl::StrCat(state_.options.source.text, ": ", facts_.mount_point,
                       " may hang after a kill of mount.dafs: no process for notifications: ",
                       relay.status().message()));
    }
  }
  if (Outcome outcome = TakePromises(device_.get()); !outcome.ok()) return outcome;
  if (Outcome outcome = StartLeaseKeeper(); !outcome.ok()) return outcome;
  // Programs wait for it: what they look at before would be kept by time, and then dropped.
  if (record == nullptr) AwaitPromises();
  // The first request makes the record out of date.
  if (record != nullptr) means_.guardian.Serving();
  for (size_t i = 0; i < workers_.size(); ++i) {
    std::vector<std::vector<std::byte>> begins_again;
    if (record != nullptr) begins_again = record->WaitingOf(i);
    workers_[i]->Resume(std::move(devices[i]), std::move(begins_again));
  }
  return {};
}

void Mount::AwaitPromises() {
  if (breaks_ != nullptr) client_.get().promises().AwaitAnswer(absl::Seconds(1));
}

// The lease keeper requests the promises.
Outcome Mount::TakePromises(int device) {
  if (!fuse::TakesPromises(state_.options)) return {};
  UniqueFd own(fcntl(device, F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return SystemError("/dev/fuse");
  absl::StatusOr<std::unique_ptr<PromiseBreaks>> breaks =
      PromiseBreaks::Start(state_, std::move(own));
  if (!breaks.ok()) return {ExitCode::kSystem, std::string(breaks.status().message())};
  breaks_ = *std::move(breaks);
  state_.caches.rules.Use(client_.get().promises());
  return {};
}

Outcome Mount::AwaitInit() {
  if (!state_.kernel.init.Await(kInitWait)) {
    return {ExitCode::kSystem, "the kernel does not use the mount"};
  }
  if (state_.kernel.init.error() == 0) return {};
  return {ExitCode::kSystem, "the kernel's fuse is too old (7.31 is needed)"};
}

Outcome Mount::StartLeaseKeeper() {
  absl::StatusOr<std::unique_ptr<client::LeaseKeeper>> keeper = client::LeaseKeeper::Start(
      client_.get(), {.socket_directory = geteuid() == 0 ? kRuntimeDirectory : "",
                      .cpu_latency = facts_.cpu_latency,
                      .slow = state_.options.slow,
                      .options = absl::StrJoin(state_.options.list, ","),
                      .answer = [this](std::string_view request,
                                       bool by_owner) { return desk_.Answer(request, by_owner); },
                      .restarts = restarts_.count,
                      .restarted_at = restarts_.last,
                      .users = [this] { return ReportUsers(state_.users); },
                      .promise_observer = breaks_.get()});
  if (!keeper.ok()) return {ExitCode::kSystem, std::string(keeper.status().message())};
  lease_keeper_ = *std::move(keeper);
  return {};
}

ExitCode Mount::Serve() {
  if (state_.options.fake) return ExitCode::kOk;
  if (restarts_.count == 0) LogMounted(state_, facts_);
  for (;;) {
    switch (WaitForEvent()) {
      case Event::kEnded:
        return ExitCode::kOk;
      case Event::kSignal:
        LogNotice(state_.options.source.text + ": unmounting " + facts_.mount_point +
                  ": ended by a signal");
        means_.guardian.End();  // no program continues the mount if this one is killed meanwhile
        Detach();
        return ExitCode::kOk;
      case Event::kRestart:
        const std::optional<std::string> program = desk_.Take();
        if (!program.has_value()) break;
        const absl::Status left = HandOver(program->empty() ? means_.program : *program);
        if (left.ok()) return ExitCode::kOk;
        LogWarning(absl::StrCat(state_.options.source.text, ": ", facts_.mount_point,
                                " was not restarted: ", left.message()));
        desk_.Refused(std::string(left.message()));
    }
  }
}

Mount::Event Mount::WaitForEvent() {
  const absl::Duration look = state_.options.idle_release / 2;
  absl::Time look_at = look == absl::ZeroDuration() ? absl::InfiniteFuture() : Loop::Now() + look;
  pollfd waits[] = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                    {.fd = ended_.get(), .events = POLLIN, .revents = 0},
                    {.fd = desk_.fd(), .events = POLLIN, .revents = 0},
                    {.fd = -1, .events = POLLIN, .revents = 0}};
  const auto has_event = [&waits] {
    return waits[0].revents != 0 || waits[1].revents != 0 || waits[2].revents != 0;
  };
  for (;;) {
    waits[3].fd = name_refresh_ != nullptr ? name_refresh_->fd() : -1;
    absl::Time next = is_settled_ ? look_at : std::min(look_at, Loop::Now() + kSettlePause);
    if (name_refresh_ != nullptr) next = std::min(next, name_refresh_->next());
    if (poll(waits, 4, MillisecondsUntil(next)) < 0) {
      for (pollfd& wait : waits) wait.revents = 0;
    }
    if (has_event()) break;
    StepNameRefresh();
    SettleLeft();
    if (Loop::Now() < look_at) continue;
    look_at = Loop::Now() + look;
    GiveBackMemory();
  }
  if (waits[0].revents != 0) return Event::kSignal;
  return waits[1].revents != 0 ? Event::kEnded : Event::kRestart;
}

void Mount::RefreshName(std::string service, absl::Duration pause) {
  if (!state_.options.source.is_name) return;
  name_refresh_ =
      std::make_unique<NameRefresh>(state_.options, std::move(service), Loop::Now() + pause);
}

void Mount::StepNameRefresh() {
  if (name_refresh_ == nullptr) return;
  const std::optional<std::vector<dat::Address>> addresses =
      name_refresh_->Step(Loop::Now(), client_.get().paths().addresses());
  if (addresses.has_value()) client_.SetAddresses(*addresses);
}

// Releases memory that the workers do not release themselves (client::BufferPool). The main thread
// is otherwise idle.
void Mount::GiveBackMemory() {
  client_.get().uncommitted().ReleaseUnused();
  if (!trim_schedule_.IsDue(state_.caches.inodes.forgotten())) return;
  state_.caches.inodes.ShrinkToFit();
  malloc_trim(0);  // free(3) does not return pages between blocks that are in use
}

}  // namespace dafs::fuse
