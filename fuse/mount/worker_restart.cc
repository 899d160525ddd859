// The part of Worker that a restart needs: it drains, passes on the requests it has read, and
// continues.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/exchange/in_flight.h"
#include "client/exchange/report.h"
#include "client/files/opens/delegating.h"
#include "client/files/opens/opening.h"
#include "fuse/mount/worker.h"

namespace dafs::fuse {

namespace {

// How often it is checked whether what a restart waits for has ended.
constexpr absl::Duration kEndPoll = absl::Milliseconds(1);

Task<void> AskNull(client::Files& files, std::function<void(absl::Status)> done) {
  Task<absl::Status> asking = files.Null();
  const absl::Status status = co_await asking;
  done(status);
}

}  // namespace

void Worker::AskServer(std::function<void(absl::Status)> done) {
  loop_->Post([this, done = std::move(done)] { dafs::Start(AskNull(*files_, done)); });
}

void Worker::Commit(std::function<void()> done) {
  loop_->Post([this, done = std::move(done)] {
    committed_ = done;
    user_files_->CommitSoon();
    LookIfCommitted();
  });
}

void Worker::LookIfCommitted() {
  if (!committed_) return;
  if (user_files_->AllCommitted()) return std::exchange(committed_, nullptr)();
  loop_->RunAfter(kEndPoll, [this] { LookIfCommitted(); });
}

void Worker::ReturnDelegations() {
  loop_->Post([this] { files_->delegating().ReturnDue(); });
}

void Worker::Close(std::vector<uint64_t> dropped, std::vector<wire::StateId> opens) {
  loop_->Post([this, dropped = std::move(dropped), opens = std::move(opens)] {
    dafs::Start(CloseEach(dropped, opens));
  });
}

Task<void> Worker::CloseEach(std::vector<uint64_t> dropped, std::vector<wire::StateId> opens) {
  for (const uint64_t request : dropped) {
    if (!in_flight_.has_value()) break;
    client::InFlightOperation operation(&*in_flight_, request, /*again=*/true);
    Task<void> closing =
        files_->opens().CloseDropped(operation, MountState::OwnerOfRequest(request));
    co_await closing;
  }
  for (const wire::StateId& open : opens) {
    Task<absl::Status> closing = files_->opens().Close(open);
    const absl::Status ignored = co_await closing;  // as in ServerOpens::Close
  }
}

void Worker::Pause(std::function<void()> drained) {
  loop_->Post([this, drained = std::move(drained)] {
    if (!std::exchange(paused_, true) && channel_.has_value() && !ended_) loop_->Remove(this);
    calls_.Retract();
    drained_ = drained;
    LookIfDrained();
  });
}

bool Worker::IsDrained() const { return calls_.size() == 0 && !files_->delegating().returning(); }

void Worker::LookIfDrained() {
  if (!drained_) return;
  if (IsDrained()) return std::exchange(drained_, nullptr)();
  loop_->RunAfter(kEndPoll, [this] { LookIfDrained(); });
}

std::vector<std::vector<std::byte>> Worker::TakeRetracted() {
  auto taken = std::make_shared<std::vector<std::vector<std::byte>>>();
  const absl::Status status = OnLoop([this, taken]() -> absl::Status {
    *taken = calls_.TakeRetracted();
    return absl::OkStatus();
  });
  if (!status.ok()) return {};
  return std::move(*taken);
}

void Worker::Resume(UniqueFd fd, std::vector<std::vector<std::byte>> retracted) {
  auto shared = std::make_shared<UniqueFd>(std::move(fd));  // Post copies the function object
  loop_->Post([this, shared, retracted = std::move(retracted)] {
    drained_ = committed_ = nullptr;
    const bool was_paused = std::exchange(paused_, false);
    if (ended_) return;
    if (!channel_.has_value()) {
      channel_.emplace(std::move(*shared));
      if (state_.in_flight != nullptr) calls_.RecordIn(in_flight_.emplace(*state_.in_flight));
      user_files_->Begin();
      operations_.emplace(state_, *user_files_, *channel_);
      files_->OnReport(
          [this](client::WorkerReport& report) { operations_->Report(calls_, report); });
      loop_->Add(this);
    } else if (was_paused) {
      loop_->Add(this);
    }
    for (const std::vector<std::byte>& request : retracted) Handle(request);
  });
}

void Worker::HandOver() {
  loop_->Post([this] { handed_over_ = true; });
}

}  // namespace dafs::fuse
