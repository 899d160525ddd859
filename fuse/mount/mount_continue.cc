// A mount that another program has left, by a restart or because it was killed (docs/restart.md).
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "fuse/kernel/channel.h"
#include "fuse/mount/countdown.h"
#include "fuse/mount/mount.h"
#include "fuse/restart/handover.h"
#include "fuse/restart/left_data.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

// Requests that wait in the kernel are read in this time.
constexpr absl::Duration kReadWithin = absl::Seconds(1);
constexpr absl::Duration kQueuePoll = absl::Microseconds(500);

double Milliseconds(int64_t from_ns, int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e6;
}

}  // namespace

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
  while (IsRequestWaiting() && Loop::Now() < end) absl::SleepFor(kQueuePoll);
  CatchUp();
  UniqueFd device(fcntl(device_.get(), F_DUPFD_CLOEXEC, 0));
  if (!device.valid()) return;  // they keep their time
  KernelChannel channel(std::move(device));
  for (const uint64_t nodeid : state_.left.outdated.TakeUnasked()) channel.ForgetAttributes(nodeid);
}

// Closes what the killed program had opened for requests that the kernel does not send again. Does
// nothing and returns false while a request that it does send again may be unread.
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
  const int64_t now = absl::ToUnixNanos(Loop::Now());
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
