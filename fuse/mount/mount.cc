#include "fuse/mount/mount.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "fuse/kernel/labels.h"
#include "fuse/mount/mount_error.h"
#include "fuse/mount/mount_syscall.h"
#include "fuse/mount/shared_directories.h"
#include "runtime/cpu_latency.h"
#include "runtime/log.h"

namespace dafs::fuse {
namespace {

// The kernel sends INIT as soon as it has mounted.
constexpr absl::Duration kInitWait = absl::Seconds(10);
// The end of a mount takes less (see worker.h). alarm(2) ends the process if a thread hangs.
constexpr unsigned kEndWithinSeconds = 15;

Outcome SystemError(const std::string& what) {
  return {ExitCode::kSystem, what + ": " + std::strerror(errno)};
}

}  // namespace

Mount::Mount(const Options& options, const EndSignals& signals, const Daemon& daemon, bool may_lock)
    : state_(options), may_lock_(may_lock), signals_(signals), daemon_(daemon) {
  state_.selinux = KernelHasSelinux();
}

Mount::~Mount() {
  alarm(kEndWithinSeconds);
  for (auto& worker : workers_) worker->Stop();
  lease_keeper_.reset();
  breaks_.reset();
  if (state_.notifier != nullptr) state_.notifier->Stop();
  for (auto& worker : workers_) worker->Join();  // they post to each other's loops
  workers_.clear();
}

void Mount::Detach() { DetachMount(facts_.mount_point); }

Outcome Mount::Begin() {
  Outcome outcome = CheckMountPoint(state_.options);
  if (outcome.ok()) outcome = WatchEnd();
  if (outcome.ok()) outcome = client_.Make(state_.options, may_lock_);
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
  state_.inodes.SetRoot(root.node->handle, root.node->attributes);
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
  if (facts_.squashed && !state_.options.default_permissions_given) {
    state_.default_permissions = false;
  }
}

Outcome Mount::Attach() {
  rings_.Make(workers_);
  Options options = state_.options;
  options.default_permissions = state_.default_permissions;
  MountResult mounted = MountFuse(options);
  if (!mounted.outcome.ok()) return mounted.outcome;
  facts_.mount_point = mounted.mount_point;
  Outcome outcome = ServeKernel(std::move(mounted.fd));
  if (outcome.ok()) outcome = AwaitInit();
  if (outcome.ok()) outcome = rings_.Start(workers_);
  if (outcome.ok()) {
    facts_.requests_by = rings_.RequestsBy();
    lease_keeper_->SetRequestsBy(facts_.requests_by);
    // A sequential reader then has several reads outstanding.
    SetReadAhead(facts_.mount_point, std::max(4 * state_.options.rsize, 1u << 20));
  }
  if (!outcome.ok()) Detach();
  return outcome;
}

// Each worker reads requests from a clone of `device`, and one from `device` itself.
Outcome Mount::ServeKernel(UniqueFd device) {
  std::vector<UniqueFd> fds;
  for (size_t i = 1; i < workers_.size(); ++i) {
    fds.push_back(KernelChannel::CloneDevice(device.get()));
    if (!fds.back().valid()) return SystemError("/dev/fuse");
  }
  UniqueFd own(fcntl(device.get(), F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return SystemError("/dev/fuse");
  state_.notifier = std::make_unique<Notifier>(std::move(own));
  if (Outcome outcome = TakePromises(device.get()); !outcome.ok()) return outcome;
  if (Outcome outcome = StartLeaseKeeper(); !outcome.ok()) return outcome;
  fds.push_back(std::move(device));
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->Serve(std::move(fds[i]));
  return {};
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
  state_.rules.Use(client_.get().promises());
  return {};
}

Outcome Mount::AwaitInit() {
  if (!state_.initialised.WaitForNotificationWithTimeout(kInitWait)) {
    return {ExitCode::kSystem, "the kernel does not use the mount"};
  }
  if (state_.init_error == 0) return {};
  return {ExitCode::kSystem, "the kernel's fuse is too old (7.31 is needed)"};
}

Outcome Mount::StartLeaseKeeper() {
  absl::StatusOr<std::unique_ptr<client::LeaseKeeper>> keeper = client::LeaseKeeper::Start(
      client_.get(), {.socket_directory = geteuid() == 0 ? kRuntimeDirectory : "",
                      .cpu_latency = facts_.cpu_latency,
                      .slow = state_.options.slow,
                      .options = absl::StrJoin(state_.options.list, ","),
                      .promise_observer = breaks_.get()});
  if (!keeper.ok()) return {ExitCode::kSystem, std::string(keeper.status().message())};
  lease_keeper_ = *std::move(keeper);
  // Programs wait for it: what they look at before would be kept by time, and then dropped.
  if (breaks_ != nullptr) client_.get().promises().AwaitAnswer(absl::Seconds(1));
  return {};
}

ExitCode Mount::Serve() {
  if (state_.options.fake) return ExitCode::kOk;
  LogMounted(state_, facts_);
  WaitForEnd();
  return ExitCode::kOk;
}

void Mount::WaitForEnd() {
  const absl::Duration look = state_.options.idle_release / 2;
  const int timeout =
      look == absl::ZeroDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(look));
  pollfd waits[] = {{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                    {.fd = ended_.get(), .events = POLLIN, .revents = 0}};
  int ready = 0;
  while (ready == 0 || (ready < 0 && errno == EINTR)) {
    ready = poll(waits, 2, timeout);
    if (ready == 0) GiveBackMemory();
  }
  if (waits[0].revents == 0) return;
  LogNotice(state_.options.source.text + ": unmounting " + facts_.mount_point +
            ": ended by a signal");
  Detach();
}

// Releases memory that the workers do not release themselves (client::BufferPool). The main thread
// is otherwise idle.
void Mount::GiveBackMemory() {
  client_.get().uncommitted().ReleaseUnused();
  if (!trim_schedule_.IsDue(state_.inodes.forgotten())) return;
  state_.inodes.ShrinkToFit();
  malloc_trim(0);  // free(3) does not return pages between blocks that are in use
}

}  // namespace dafs::fuse
