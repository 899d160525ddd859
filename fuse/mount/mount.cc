#include "fuse/mount/mount.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "client/state/client.h"
#include "client/status/lease_keeper.h"
#include "fuse/kernel/labels.h"
#include "fuse/kernel/memory_pressure.h"
#include "fuse/kernel/ring.h"
#include "fuse/kernel/uring_protocol.h"
#include "fuse/mount/client_id.h"
#include "fuse/mount/mount_error.h"
#include "fuse/mount/mount_retry.h"
#include "fuse/mount/mount_syscall.h"
#include "fuse/mount/trim_schedule.h"
#include "fuse/mount/worker.h"
#include "fuse/operations/mount_state.h"
#include "runtime/log.h"
#include "runtime/loop.h"
#include "wire/dat/address.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::fuse {
namespace {

// Locks of client ids and the sockets of dafsctl.
constexpr char kRuntimeDirectory[] = "/run/dafs";
// The secret of client ids.
constexpr char kStateDirectory[] = "/var/lib/dafs";
// The kernel sends INIT as soon as it has mounted.
constexpr absl::Duration kInitWait = absl::Seconds(10);
// The end of a mount takes less (see worker.h). alarm(2) ends the process if a thread hangs.
constexpr unsigned kEndWithinSeconds = 15;

// Initial entries of all queues together; usually fewer requests are outstanding. Each entry has
// room for the largest request, and takes memory once it has held one.
constexpr uint32_t kRingEntries = 64;
constexpr uint32_t kLeastPayload = 128u << 10;

Outcome Fail(ExitCode code, std::string reason) { return {code, std::move(reason)}; }

UniqueFd WatchSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  // Blocked before any thread starts, so that all of them inherit it.
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Waits for `most`. Returns false if a signal arrived or the parent that waits was killed.
bool GoesOn(int signals, const Daemon& daemon, absl::Duration most) {
  pollfd waits[] = {{.fd = signals, .events = POLLIN, .revents = 0},
                    {.fd = daemon.parent_gone_fd(), .events = 0, .revents = 0}};
  const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(most));
  const int ready = poll(waits, 2, milliseconds);
  return ready == 0 || (ready < 0 && errno == EINTR);
}

Outcome Interrupted() { return Fail(ExitCode::kInterrupted, "interrupted"); }

// Whether proto=auto should try RDMA.
bool HasRdmaDevice() {
  std::error_code error;
  std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

client::Windows WindowsOf(const Options& o) {
  switch (o.windows) {
    case Windows::kOff:
      return client::Windows::kOff;
    case Windows::kOn:
      return client::Windows::kOn;
    case Windows::kAuto:
      break;
  }
  return client::Windows::kAuto;
}

wire::ByteOrder ByteOrderOf(const Options& o) {
  switch (o.byte_order) {
    case MessageOrder::kLittle:
      return wire::ByteOrder::kLittle;
    case MessageOrder::kBig:
      return wire::ByteOrder::kBig;
    case MessageOrder::kHost:
      break;
  }
  return client::HostByteOrder();
}

class Mount {
 public:
  // `signals` is a signalfd, readable when the mount should end. `may_lock`: one write buffer is
  // locked in memory.
  Mount(const Options& options, int signals, const Daemon& daemon, bool may_lock)
      : state_(options), may_lock_(may_lock), signals_(signals), daemon_(daemon) {
    state_.selinux = KernelHasSelinux();
  }
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // Returns when programs can use the mount, or it has failed.
  Outcome Begin();
  // Blocks until the mount ends. Returns the exit code of a run in the foreground.
  ExitCode Serve();
  void Detach() { DetachMount(mount_point_); }

 private:
  Outcome WatchEnd();
  Outcome MakeClient();
  Outcome StartWorkers();
  Outcome FindRoot();
  void DecideWhoChecks();
  void MakeRings();
  Outcome StartRings();
  Outcome Attach();
  void WaitForEnd(std::span<pollfd> ends);
  void GiveBackMemory();
  // "io_uring", or "/dev/fuse" and the reason.
  std::string RequestsBy() const {
    return no_io_uring_.empty() ? "io_uring" : "/dev/fuse (" + no_io_uring_ + ")";
  }
  void SayMounted() const;

  MountState state_;
  const bool may_lock_;
  std::string mount_point_;
  const int signals_;
  const Daemon& daemon_;
  UniqueFd ended_;  // counts the workers that have ended
  ClientId client_id_;
  std::unique_ptr<dat::Provider> rdma_;
  std::unique_ptr<dat::Provider> tcp_;
  std::unique_ptr<client::Client> client_;
  client::SessionReport session_;  // the first session, when the mount started
  std::vector<std::unique_ptr<Worker>> workers_;
  bool squashed_ = false;          // the server maps all users to one (all_squash)
  bool squashed_in_part_ = false;  // the server does so in some exports below the root
  std::string no_io_uring_;        // why requests arrive on /dev/fuse; empty: by io_uring
  std::string cpu_latency_;        // the effect of that option, for the log
  std::unique_ptr<client::LeaseKeeper> lease_keeper_;
  TrimSchedule trim_schedule_;
};

Mount::~Mount() {
  alarm(kEndWithinSeconds);
  for (auto& worker : workers_) worker->Stop();
  lease_keeper_.reset();
  if (state_.notifier != nullptr) state_.notifier->Stop();
  for (auto& worker : workers_) worker->Join();  // they post to each other's loops
  workers_.clear();
}

Outcome Mount::WatchEnd() {
  ended_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (ended_.valid()) return {};
  return Fail(ExitCode::kSystem, std::string("eventfd: ") + std::strerror(errno));
}

Outcome Mount::MakeClient() {
  const Options& o = state_.options;
  absl::StatusOr<std::vector<dat::Address>> addresses = dat::ResolveHost(o.source.host, o.port);
  if (!addresses.ok()) return HostError(o, addresses.status());
  client::ClientOptions c;
  c.addresses = *std::move(addresses);
  if (o.proto == Proto::kRdma || (o.proto == Proto::kAuto && HasRdmaDevice())) {
    rdma_ = dat::NewVerbsProvider({.reserved_port = o.reserved_port});
    c.providers.push_back(rdma_.get());
  } else if (o.proto == Proto::kAuto) {
    c.left_out = "rdma: no RDMA device on this machine";
  }
  if (o.proto != Proto::kRdma) {
    tcp_ = dat::NewIwarpProvider({.want_crc = o.crc, .reserved_port = o.reserved_port});
    c.providers.push_back(tcp_.get());
  }
  c.device = o.rdma_device;
  c.server_name = o.source.text;
  c.mount_point = o.mount_point;
  c.export_path = ExportPath(o.source);
  client_id_ = TakeClientId(o, {.locks = kRuntimeDirectory, .secret = kStateDirectory});
  c.client_id_string = client_id_.text;
  c.byte_order = ByteOrderOf(o);
  c.checksums = o.checksum;
  c.keep_atime = (o.mount_flags & MS_NOATIME) != 0;
  c.rdma_read_channel = o.rdma_read_channel;
  c.windows = WindowsOf(o);
  if (o.msgsize != 0) c.max_request_size = c.max_response_size = o.msgsize;
  c.uncommitted_bytes = size_t{o.uncommitted} << 20;
  if (o.buffers != 0) c.buffers.bytes = size_t{o.buffers} << 20;
  c.buffers.release_unused_after = o.idle_release;
  c.buffers.lock_reserve = may_lock_;
  c.buffers.large_bytes = std::max({o.rsize, o.wsize, 64u << 10});
  c.buffers.small_bytes = std::min(c.buffers.small_bytes, c.buffers.large_bytes);
  c.read_bytes = o.rsize;
  c.write_bytes = o.wsize;
  c.soft = o.soft;
  c.timeout = o.timeo;
  absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(std::move(c));
  if (!client.ok()) return Fail(ExitCode::kUsage, std::string(client.status().message()));
  client_ = *std::move(client);
  return {};
}

Outcome Mount::StartWorkers() {
  state_.cpu_latency = dat::CpuLatency::For(state_.options.cpu_latency, dat::IdleFactsOfMachine(),
                                            dat::CpuLatency::kDevice, &cpu_latency_);
  for (uint32_t i = 0; i < state_.options.nconnect; ++i) {
    absl::StatusOr<std::unique_ptr<Worker>> worker =
        Worker::Start(state_, *client_, [fd = ended_.get()] {
          uint64_t one = 1;
          [[maybe_unused]] ssize_t written = write(fd, &one, sizeof(one));
        });
    if (!worker.ok()) {
      return Fail(ExitCode::kSystem, std::string(worker.status().message()));
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
    if (!GoesOn(signals_, daemon_, absl::ZeroDuration())) return Interrupted();
  }
  const Worker::Root& root = answer->root;
  if (!root.connected.ok()) {
    Outcome outcome = ConnectError(state_.options, root.connected);
    if (state_.options.proto == Proto::kRdma && !HasRdmaDevice()) outcome.may_pass = false;
    return outcome;
  }
  session_ = root.session;
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
  squashed_ = client_->limits().squashed.load(std::memory_order_relaxed);
  squashed_in_part_ = client_->limits().squashed_in_part.load(std::memory_order_relaxed);
  if (squashed_ && !state_.options.default_permissions_given) state_.default_permissions = false;
}

// The rings are made before INIT. After an INIT that requests them, the kernel delivers no request
// until they are registered.
void Mount::MakeRings() {
  const Options& o = state_.options;
  RingPlan plan;
  plan.queues = PossibleCpus();
  plan.workers = static_cast<uint32_t>(workers_.size());
  plan.entries = std::clamp(kRingEntries / std::max(plan.queues, 1u), 4u, 16u);
  plan.payload_bytes = o.wsize;
  plan.name = o.source.text;
  if (o.io_uring == IoUring::kOff) {
    no_io_uring_ = "io_uring=off";
  } else if (plan.queues == 0) {
    no_io_uring_ = "the number of CPUs is not known";
  } else if (o.wsize < kLeastPayload) {
    // The kernel requires this much room for an answer; an xattr's value has up to 64 KiB.
    no_io_uring_ = "wsize is below " + std::to_string(kLeastPayload);
  }
  for (uint32_t i = 0; i < workers_.size() && no_io_uring_.empty(); ++i) {
    absl::Status made = workers_[i]->MakeRing(plan, i);
    if (!made.ok()) no_io_uring_ = std::string(made.message());
  }
  state_.wants_io_uring = no_io_uring_.empty();
}

Outcome Mount::StartRings() {
  if (state_.wants_io_uring && (state_.init_flags & kInitOverIoUring) == 0) {
    no_io_uring_ =
        "the kernel does not offer it: /sys/module/fuse/parameters/enable_uring has to be Y before "
        "the mount";
  }
  for (auto& worker : workers_) {
    if (!no_io_uring_.empty()) {
      worker->DropRing();
    } else if (absl::Status started = worker->StartRing(); !started.ok()) {
      no_io_uring_ = std::string(started.message());
    }
  }
  if (no_io_uring_.empty() || state_.options.io_uring != IoUring::kOn) return {};
  return Fail(ExitCode::kSystem, "io_uring=on: " + no_io_uring_);
}

Outcome Mount::Attach() {
  MakeRings();
  Options options = state_.options;
  options.default_permissions = state_.default_permissions;
  MountResult mounted = MountFuse(options);
  if (!mounted.outcome.ok()) return mounted.outcome;
  mount_point_ = mounted.mount_point;
  std::vector<UniqueFd> fds;
  for (size_t i = 1; i < workers_.size(); ++i) {
    fds.push_back(KernelChannel::CloneDevice(mounted.fd.get()));
    if (fds.back().valid()) continue;
    DetachMount(mount_point_);
    return Fail(ExitCode::kSystem, std::string("/dev/fuse: ") + std::strerror(errno));
  }
  UniqueFd own(fcntl(mounted.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) {
    DetachMount(mount_point_);
    return Fail(ExitCode::kSystem, std::string("/dev/fuse: ") + std::strerror(errno));
  }
  state_.notifier = std::make_unique<Notifier>(std::move(own));
  fds.push_back(std::move(mounted.fd));
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->Serve(std::move(fds[i]));
  bool answered = state_.initialised.WaitForNotificationWithTimeout(kInitWait);
  if (answered && state_.init_error == 0) {
    Outcome outcome = StartRings();
    if (!outcome.ok()) DetachMount(mount_point_);
    return outcome;
  }
  DetachMount(mount_point_);
  return Fail(ExitCode::kSystem, answered ? "the kernel's fuse is too old (7.31 is needed)"
                                          : "the kernel does not use the mount");
}

Outcome Mount::Begin() {
  Outcome outcome = CheckMountPoint(state_.options);
  if (outcome.ok()) outcome = WatchEnd();
  if (outcome.ok()) outcome = MakeClient();
  if (outcome.ok()) outcome = StartWorkers();
  if (outcome.ok()) outcome = FindRoot();
  if (!outcome.ok() || state_.options.fake) return outcome;
  outcome = Attach();
  if (!outcome.ok()) return outcome;
  // A sequential reader then has several reads outstanding.
  SetReadAhead(mount_point_, std::max(4 * state_.options.rsize, 1u << 20));
  absl::StatusOr<std::unique_ptr<client::LeaseKeeper>> keeper = client::LeaseKeeper::Start(
      *client_, {.socket_directory = geteuid() == 0 ? kRuntimeDirectory : "",
                 .requests_by = RequestsBy(),
                 .cpu_latency = cpu_latency_,
                 .options = absl::StrJoin(state_.options.list, ",")});
  if (!keeper.ok()) {
    DetachMount(mount_point_);
    return Fail(ExitCode::kSystem, std::string(keeper.status().message()));
  }
  lease_keeper_ = *std::move(keeper);
  return {};
}

// Logs one short line about the mount. Why other transports failed and which features are in use is
// logged at the level of -v, because dafsctl status shows it too.
void Mount::SayMounted() const {
  const std::string& source = state_.options.source.text;
  const std::string server = source.starts_with(session_.peer) ? "" : session_.peer + ", ";
  LogNotice("mounted " + source + " on " + mount_point_ + ": " + server + session_.transport);
  if (!session_.passed_over.empty()) {
    LogInfo("mount " + mount_point_ + ": tried before: " + session_.passed_over);
  }
  LogInfo("mount " + mount_point_ + ": requests by " + RequestsBy());
  LogInfo("mount " + mount_point_ +
          (session_.memory_by_windows
               ? ": the server can access a data buffer only while a request for it is outstanding "
                 "(memory windows)"
               : ": the server can access all data buffers while a session lasts (registered "
                 "memory, " +
                     session_.memory + ")"));
  LogInfo("mount " + mount_point_ + ": " + cpu_latency_);
  if (squashed_in_part_ && state_.default_permissions) {
    LogWarning(
        source +
        ": some of the exports map all users to one (all_squash), but default_permissions "
        "lets the kernel compare users of this machine with that one: it may refuse what the "
        "server permits; mount such an export by itself");
  }
  if (!squashed_) return;
  if (state_.default_permissions) {
    LogWarning(state_.options.source.text +
               ": the server maps all users to one (all_squash), but default_permissions lets the "
               "kernel compare users of this machine with that one: it may refuse what the server "
               "permits; mount without default_permissions");
  } else {
    LogNotice(state_.options.source.text +
              ": the server maps all users to one (all_squash); it alone checks permissions");
  }
}

// Releases memory that the workers do not release themselves (client::BufferPool). The main thread
// is otherwise idle.
void Mount::GiveBackMemory() {
  client_->uncommitted().ReleaseUnused();
  if (!trim_schedule_.IsDue(state_.inodes.forgotten())) return;
  state_.inodes.ShrinkToFit();
  malloc_trim(0);  // free(3) does not return pages between blocks that are in use
}

void Mount::WaitForEnd(std::span<pollfd> ends) {
  const absl::Duration look = state_.options.idle_release / 2;
  const int timeout =
      look == absl::ZeroDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(look));
  for (;;) {
    const int ready = poll(ends.data(), ends.size(), timeout);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;
    if (ready == 0) GiveBackMemory();
  }
}

ExitCode Mount::Serve() {
  if (state_.options.fake) return ExitCode::kOk;
  SayMounted();
  pollfd waits[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                    {.fd = ended_.get(), .events = POLLIN, .revents = 0}};
  WaitForEnd(waits);
  if (waits[0].revents != 0) {
    LogNotice(state_.options.source.text + ": unmounting " + mount_point_ + ": ended by a signal");
    Detach();
  }
  return ExitCode::kOk;
}

}  // namespace

namespace {

ExitCode Failed(const Outcome& outcome, Daemon& daemon) {
  if (daemon.reported()) {
    LogError(outcome.reason);
  } else {
    daemon.Report(outcome);
  }
  return outcome.code;
}

// With `bg` the parent returns now. Otherwise it continues to wait, and `text` is for its user.
void SayRetrying(const std::string& text, const Options& options, Daemon& daemon) {
  if (!options.background || options.foreground) {
    PrintReason({ExitCode::kOk, text});
    return;
  }
  daemon.Report({ExitCode::kOk, text});
  LogToSyslog("mount.dafs", LeastSeverity(options));
  LogWarning(text);
}

}  // namespace

Severity LeastSeverity(const Options& options) {
  return options.verbose ? Severity::kDebug : Severity::kNotice;
}

ExitCode RunMount(const Options& options, Daemon& daemon) {
  const bool may_lock = PrepareForMemoryPressure();
  const UniqueFd signals = WatchSignals();
  if (!signals.valid()) {
    const Outcome failed =
        Fail(ExitCode::kSystem, std::string("signalfd: ") + std::strerror(errno));
    daemon.Report(failed);
    return failed.code;
  }
  MountRetry retry(options, dat::Loop::Now());
  std::optional<absl::Duration> pause;
  for (int attempts = 1;; ++attempts) {
    Outcome outcome;
    ExitCode code = ExitCode::kOk;
    {
      Mount mount(options, signals.get(), daemon, may_lock);
      outcome = mount.Begin();
      if (outcome.ok()) {
        // A parent that was killed while it waited does not want the mount.
        if (!daemon.Report(outcome)) mount.Detach();
        if (!options.foreground) LogToSyslog("mount.dafs", LeastSeverity(options));
        code = mount.Serve();
      } else {
        pause = retry.NextPause(outcome, dat::Loop::Now());
        if (!pause.has_value()) return Failed(retry.Last(outcome, attempts), daemon);
      }
    }
    alarm(0);
    if (outcome.ok()) return code;
    if (attempts == 1) SayRetrying(retry.Announce(outcome), options, daemon);
    if (!GoesOn(signals.get(), daemon, *pause)) return Failed(Interrupted(), daemon);
  }
}

}  // namespace dafs::fuse
