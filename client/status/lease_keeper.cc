#include "client/status/lease_keeper.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/exchange/call.h"
#include "client/files/files.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "client/status/failover_keeper.h"
#include "client/status/mount_report.h"
#include "client/status/promise_keeper.h"
#include "client/status/report_json.h"
#include "client/status/report_text.h"
#include "runtime/fnv.h"
#include "runtime/gather.h"
#include "runtime/log/log.h"
#include "runtime/log/log_level.h"
#include "runtime/sockets/control_socket.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {}  // namespace

class LeaseKeeper::Impl {
 public:
  Impl(Client& client, std::unique_ptr<Loop> loop)
      : client_(client),
        loop_(std::move(loop)),
        session_keeper_(std::make_unique<SessionKeeper>(
            client, *loop_, nullptr, absl::StrCat(client.options().server_name, " (control)"),
            client.options().callbacks)) {}

  void Start(const LeaseKeeperOptions& options) {
    cpu_latency_ = options.cpu_latency;
    options_ = options.options;
    slow_ = options.slow;
    answer_ = options.answer;
    users_ = options.users;
    restarts_ = options.restarts;
    restarted_at_ = options.restarted_at;
    const std::string& mount_point = client_.options().mount_point;
    if (!options.socket_directory.empty()) {
      OpenToControlGroup(options.socket_directory);
      auto socket = ControlSocket::Create(
          {.path = SocketPath(options.socket_directory, mount_point), .group = ControlGroup()},
          [this](const ControlSocket::Request& request) { return Answer(request); });
      if (socket.ok()) {
        socket_ = *std::move(socket);
        loop_->Add(socket_.get());
      } else {
        LogWarning(absl::StrCat(client_.options().server_name,
                                ": dafsctl cannot query the mount on ", mount_point, ": ",
                                socket.status().message()));
      }
    }
    if (client_.options().callbacks) KeepPromises(options.promise_observer);
    failover_.Start();
    thread_ = std::thread([this] {
      dafs::Start(Keep());
      loop_->Run();
    });
  }

  void SetRequestsBy(std::string requests_by) {
    loop_->Post([this, requests_by = std::move(requests_by)]() mutable {
      requests_by_ = std::move(requests_by);
    });
  }

  void Suspend(absl::AnyInvocable<void()> ended) {
    loop_->Post([this, ended = std::move(ended)]() mutable {
      if (promises_ == nullptr) return ended();
      promises_->Suspend(std::move(ended));
    });
  }

  void Resume() {
    loop_->Post([this] {
      if (promises_ != nullptr) promises_->Resume();
    });
  }

  ~Impl() {
    loop_->Post([this] { dafs::Start(End()); });
    if (thread_.joinable()) thread_.join();
    if (socket_ != nullptr) loop_->Remove(socket_.get());
    socket_.reset();
    promises_.reset();
    session_keeper_.reset();
  }

 private:
  void KeepPromises(PromiseObserver* observer) {
    promises_ = std::make_unique<PromiseKeeper>(client_, *loop_, *session_keeper_, observer);
    session_keeper_->OnChange([this](Session& session) { promises_->SessionReady(session); },
                              [this](Session&) { promises_->SessionLost(); });
    loop_->Post([this] { dafs::Start(Connect()); });
  }

  Task<void> Connect() {
    Task<absl::StatusOr<Session*>> connecting = session_keeper_->Ready(absl::InfiniteFuture());
    absl::StatusOr<Session*> ignored = co_await connecting;
  }

  Task<void> Keep() {
    bool warned = false;
    for (;;) {
      const absl::Duration lease = client_.lease();
      // Three attempts within a lease.
      const absl::Duration period = std::max(lease / 3, absl::Milliseconds(200));
      if (client_.TakeLapse()) {
        warned = false;
        ValidateLocks();
      }
      absl::Duration quiet = Loop::Now() - client_.last_activity();
      Task<absl::Status> pause =
          session_keeper_->Pause(std::clamp(period - quiet, absl::Milliseconds(100), period));
      absl::Status status = co_await pause;
      if (!status.ok()) co_return;
      quiet = Loop::Now() - client_.last_activity();
      if (quiet < period) continue;
      if (const absl::Duration silence = Silence(); silence > lease && !warned) {
        warned = true;
        LogWarning(absl::StrCat(client_.options().server_name, ": no answer for ",
                                absl::FormatDuration(absl::Trunc(silence, absl::Seconds(1))),
                                ": the server gives up locks and open files of this mount after ",
                                absl::FormatDuration(lease),
                                "; they are reclaimed when it answers"));
      }
      Task<void> renewal = Renew(Loop::Now() + period);
      co_await renewal;
    }
  }

  // Since the last answer, or since the start if there was none.
  absl::Duration Silence() const { return Loop::Now() - std::max(client_.last_activity(), since_); }

  // One worker does it for all.
  void ValidateLocks() {
    bool asked = false;
    client_.ForEachWorker([&asked](Files& files) {
      if (std::exchange(asked, true)) return;
      files.loop().Post([&files] { dafs::Start(files.locks().ValidateLocks()); });
    });
  }

  // Any request renews the leases (4.5); NULL is the smallest.
  Task<void> Renew(absl::Time deadline) {
    Task<absl::StatusOr<Session*>> ready = session_keeper_->Ready(deadline);
    absl::StatusOr<Session*> session = co_await ready;
    if (!session.ok()) co_return;
    Call<wire::NullArgs> null;
    CallBase* const chain[] = {&null};
    Task<absl::Status> task = (*session)->Run(wire::CredHandle(), chain, deadline);
    absl::Status ignored = co_await task;  // the session reports its own end
  }

  Task<void> End() {
    if (promises_ != nullptr) promises_->Shutdown();
    failover_.Shutdown();
    Task<void> task = session_keeper_->Disconnect(absl::Seconds(1));
    co_await task;
    loop_->Stop();
  }

  // The group dafs may ask for what changes nothing and reveals no options.
  absl::StatusOr<std::string> Answer(const ControlSocket::Request& request) {
    const std::string_view what = request.text;
    const bool by_owner = request.uid == 0 || request.uid == geteuid();
    if (what == "options") {
      if (!by_owner) return absl::PermissionDeniedError("only root may ask for the options");
      return options_ + "\n";
    }
    if (what.starts_with("log ")) {
      if (!by_owner)
        return absl::PermissionDeniedError("only root may change the level of the log");
      return ChangeLogLevel(what.substr(4));
    }
    if (answer_) {
      std::optional<absl::StatusOr<std::string>> answer = answer_(what, by_owner);
      if (answer.has_value()) return *std::move(answer);
    }
    MountReport report = Collect();
    if (what == "status") return StatusText(report);
    if (what == "stats") return StatsText(report);
    if (what == "json") return ReportJson(report);
    return absl::InvalidArgumentError(
        "unknown request; known are status, stats, json, options, log LEVEL");
  }

  MountReport Collect() {
    const auto gather = std::make_shared<Gather<WorkerReport>>();
    client_.ForEachWorker([&gather](Files& files) {
      gather->Expect();
      files.loop().Post([gather, &files] { gather->Put(files.Report()); });
    });
    MountReport report;
    report.server_name = client_.options().server_name;
    report.mount_point = client_.options().mount_point;
    report.requests_by = requests_by_;
    report.cpu_latency = cpu_latency_;
    report.slow = slow_;
    report.up = Loop::Now() - since_;
    report.lease_seconds = client_.limits().lease_seconds.load(std::memory_order_relaxed);
    report.quiet = Silence();
    report.restarts = restarts_;
    report.restarted_at = restarted_at_;
    report.credentials = client_.credentials().size();
    report.caching = client_.promises().caching();
    report.promises = client_.promises().counts();
    report.delegations = client_.delegations().counts();
    report.paths = client_.paths().GetReport();
    Gather<WorkerReport>::Result gathered = gather->Await();
    report.workers = std::move(gathered.reports);
    report.silent_workers = gathered.missing;
    if (users_ != nullptr) report.users = users_();
    session_keeper_->Fill(report.workers.emplace_back());
    return report;
  }

  Client& client_;
  std::string requests_by_;
  std::string cpu_latency_;
  std::string options_;
  absl::Duration slow_;
  const absl::Time since_ = Loop::Now();
  std::function<std::optional<absl::StatusOr<std::string>>(std::string_view, bool)> answer_;
  std::function<std::vector<UserReport>()> users_;
  uint64_t restarts_ = 0;
  absl::Time restarted_at_;
  std::unique_ptr<Loop> loop_;
  FailoverKeeper failover_{client_, *loop_};
  std::unique_ptr<SessionKeeper> session_keeper_;
  std::unique_ptr<PromiseKeeper> promises_;  // null: not wanted
  std::unique_ptr<ControlSocket> socket_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<LeaseKeeper>> LeaseKeeper::Start(Client& client,
                                                                const LeaseKeeperOptions& options) {
  Loop::Options quiet;
  quiet.max_spin = absl::ZeroDuration();  // nothing here needs low latency
  ASSIGN_OR_RETURN(std::unique_ptr<Loop> loop, Loop::Create(quiet));
  auto impl = std::make_unique<Impl>(client, std::move(loop));
  impl->Start(options);
  return absl::WrapUnique(new LeaseKeeper(std::move(impl)));
}

LeaseKeeper::LeaseKeeper(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LeaseKeeper::~LeaseKeeper() = default;

void LeaseKeeper::Suspend(absl::AnyInvocable<void()> ended) { impl_->Suspend(std::move(ended)); }
void LeaseKeeper::Resume() { impl_->Resume(); }

void LeaseKeeper::SetRequestsBy(std::string requests_by) {
  impl_->SetRequestsBy(std::move(requests_by));
}

// A mount point may be longer than a socket's name may be, so its hash is used.
std::string LeaseKeeper::SocketPath(const std::string& directory, const std::string& mount_point) {
  return absl::StrFormat("%s/%016x.sock", directory, Fnv64(mount_point));
}

bool LeaseKeeper::IsSocketName(std::string_view name) {
  constexpr size_t kDigits = 16;
  return name.size() == kDigits + 5 && name.ends_with(".sock") &&
         std::all_of(name.begin(), name.begin() + kDigits,
                     [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

}  // namespace dafs::client
