#include "fuse/mount/worker_restart.h"

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "client/exchange/in_flight.h"
#include "client/files/opens/delegating.h"
#include "client/files/opens/opening.h"

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

void WorkerRestart::AskServer(std::function<void(absl::Status)> done) {
  context_.loop->Post(
      [this, done = std::move(done)] { dafs::Start(AskNull(*context_.files, done)); });
}

void WorkerRestart::Commit(std::function<void()> done) {
  context_.loop->Post([this, done = std::move(done)] {
    committed_ = done;
    context_.user_files->CommitSoon();
    LookIfCommitted();
  });
}

void WorkerRestart::LookIfCommitted() {
  if (!committed_) return;
  if (context_.user_files->AllCommitted()) return std::exchange(committed_, nullptr)();
  context_.loop->RunAfter(kEndPoll, [this] { LookIfCommitted(); });
}

void WorkerRestart::ReturnDelegations() {
  context_.loop->Post([this] { context_.files->delegating().ReturnDue(); });
}

void WorkerRestart::Close(std::vector<uint64_t> dropped, std::vector<wire::StateId> opens) {
  context_.loop->Post([this, dropped = std::move(dropped), opens = std::move(opens)] {
    dafs::Start(CloseEach(dropped, opens));
  });
}

Task<void> WorkerRestart::CloseEach(std::vector<uint64_t> dropped,
                                    std::vector<wire::StateId> opens) {
  ++closing_;
  for (const uint64_t request : dropped) {
    if (!context_.in_flight.has_value()) break;
    client::InFlightOperation operation(&*context_.in_flight, request, /*again=*/true);
    Task<void> closing =
        context_.files->opens().CloseDropped(operation, OwnerNames::OfRequest(request));
    co_await closing;
  }
  for (const wire::StateId& open : opens) {
    Task<absl::Status> closing = context_.files->opens().Close(open);
    const absl::Status ignored = co_await closing;  // as in ServerOpens::Close
  }
  --closing_;
}

void WorkerRestart::AwaitClosed(std::function<void()> done) {
  context_.loop->Post([this, done = std::move(done)] {
    closed_ = done;
    LookIfClosed();
  });
}

void WorkerRestart::LookIfClosed() {
  if (!closed_) return;
  if (closing_ == 0) return std::exchange(closed_, nullptr)();
  context_.loop->RunAfter(kEndPoll, [this] { LookIfClosed(); });
}

void WorkerRestart::Pause(std::function<void()> drained) {
  context_.loop->Post([this, drained = std::move(drained)] {
    if (!std::exchange(paused_, true) && context_.channel.has_value() && !ending_.has_begun()) {
      context_.loop->Remove(&requests_);
    }
    context_.calls.Retract();
    drained_ = drained;
    LookIfDrained();
  });
}

bool WorkerRestart::IsDrained() const {
  return context_.calls.size() == 0 && closing_ == 0 && !context_.files->delegating().returning();
}

void WorkerRestart::LookIfDrained() {
  if (!drained_) return;
  if (IsDrained()) return std::exchange(drained_, nullptr)();
  context_.loop->RunAfter(kEndPoll, [this] { LookIfDrained(); });
}

std::vector<std::vector<std::byte>> WorkerRestart::TakeRetracted() {
  auto taken = std::make_shared<std::vector<std::vector<std::byte>>>();
  const absl::Status status = context_.Run([this, taken]() -> absl::Status {
    *taken = context_.calls.TakeRetracted();
    return absl::OkStatus();
  });
  if (!status.ok()) return {};
  return std::move(*taken);
}

bool WorkerRestart::EndPause() {
  closed_ = drained_ = committed_ = nullptr;
  return std::exchange(paused_, false);
}

void WorkerRestart::BeginAgain() {
  // Posted, because the last call is still on the stack.
  context_.loop->Post([this] {
    for (const std::vector<std::byte>& request : context_.calls.TakeRetracted()) handle_(request);
  });
}

void WorkerRestart::HandOver() {
  context_.loop->Post([this] { handed_over_ = true; });
}

}  // namespace dafs::fuse
