#include "server/procedures/batches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/check.h"
#include "runtime/text.h"
#include "server/procedures/batch_io.h"
#include "server/session/directives/back_control.h"
#include "server/session/session.h"
#include "server/session/shared/credit.h"
#include "wire/protocol/limits.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// The memory that a request costs while it is outstanding, its lists included.
size_t CostOf(const wire::RwRequest& request) {
  return sizeof(wire::RwRequest) + 256 + request.chunks.size() * sizeof(wire::FileChunk) +
         request.request_buffers.size() * sizeof(wire::DirectOpBuffer);
}

}  // namespace

// An outstanding request with its caller, and the memory that it reserves in the budget.
struct Batches::Item {
  Item(CreditBudget& of, size_t bytes) : budget(of), cost(bytes) { budget.Reserve(cost); }
  ~Item() { budget.Release(cost); }
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;

  CreditBudget& budget;
  const size_t cost;
  wire::RwRequest request;
  std::shared_ptr<const Credential> credential;  // has caller.groups; shared with the client
  Caller caller;
  absl::Time due = absl::InfiniteFuture();  // the end of the window, if it has one
  bool hurried = false;
  wire::CompletionNotification done;
};

Batches& Batches::Of(Session& session) {
  if (session.pending_work() == nullptr) {
    session.set_pending_work(std::make_unique<Batches>(session));
  }
  return static_cast<Batches&>(*session.pending_work());  // only this function sets it
}

Batches::Batches(Session& session) : session_(session) {}

Batches::~Batches() {
  DAFS_CHECK(running_ == 0, "a batch outlives its session");
  session_.loop().Cancel(timer_);
}

// ---- Admission ---------------------------------------------------------------------------------

DafsStatus Batches::MayTake(const wire::BatchSubmitArgs& args) const {
  size_t cost = 0;
  for (const wire::RwRequest& request : args.requests) {
    if (IsOutstanding(request)) return DafsStatus::kInval;
    cost += CostOf(request);
  }
  // Without a limit here, so that a session with none outstanding always makes progress.
  if (ids_.empty()) return DafsStatus::kOk;
  const Shared& shared = session_.shared();
  if (ids_.size() + args.requests.size() > shared.options->max_batch_requests) {
    return DafsStatus::kWhoaCowboy;
  }
  if (!shared.budget->TryReserve(cost)) return DafsStatus::kWhoaCowboy;
  shared.budget->Release(cost);
  return DafsStatus::kOk;
}

bool Batches::IsOutstanding(const wire::RwRequest& request) const {
  return ids_.contains(request.request_id) || synchronous_.contains(request.request_id);
}

DafsStatus Batches::BeginSynchronous(const std::vector<wire::RwRequest>& requests) {
  for (const wire::RwRequest& request : requests) {
    if (IsOutstanding(request)) return DafsStatus::kInval;
  }
  for (const wire::RwRequest& request : requests) synchronous_.insert(request.request_id);
  return DafsStatus::kOk;
}

void Batches::EndSynchronous(const std::vector<wire::RwRequest>& requests) {
  for (const wire::RwRequest& request : requests) synchronous_.erase(request.request_id);
}

void Batches::Take(const Call& call, uint32_t usec_window, std::vector<wire::RwRequest> requests) {
  const absl::Time due =
      usec_window == 0 ? absl::InfiniteFuture() : Loop::Now() + absl::Microseconds(usec_window);
  for (wire::RwRequest& request : requests) {
    auto item = std::make_unique<Item>(*session_.shared().budget, CostOf(request));
    const uint64_t id = request.request_id;
    item->request = std::move(request);
    item->credential = call.credential();
    item->caller = call.caller();
    item->caller.operation = nullptr;
    item->caller.recent = nullptr;
    item->caller.promises = nullptr;
    item->caller.fenced_off = nullptr;
    item->caller.hidden = nullptr;
    item->caller.closed = nullptr;
    item->caller.lock_broken = nullptr;
    item->due = due;
    if (usec_window == 0) {
      ids_.emplace(id, patient_.end());
      urgent_.push_back(std::move(item));
    } else {
      ids_.emplace(id, patient_.emplace(due, std::move(item)));
    }
  }
}

void Batches::Want(uint32_t num_completions) {
  if (num_completions != 0) wanted_ = num_completions;
}

bool Batches::HurryUp(uint64_t request_id) {
  if (synchronous_.contains(request_id)) return true;  // it has no window
  const auto id = ids_.find(request_id);
  if (id == ids_.end()) return false;
  if (id->second != patient_.end()) {
    std::unique_ptr<Item> item = std::move(id->second->second);
    patient_.erase(std::exchange(id->second, patient_.end()));
    item->hurried = true;
    urgent_.push_back(std::move(item));
  } else {
    report_by_ = Loop::Now();  // it may be done already
  }
  SetTimer();
  return true;
}

// ---- Execution ---------------------------------------------------------------------------------

// Returns the next request to begin; null if none may begin.
std::unique_ptr<Batches::Item> Batches::Next() {
  std::unique_ptr<Item> item;
  if (running_ >= kBatchLanes) return item;
  if (!urgent_.empty()) {
    item = std::move(urgent_.front());
    urgent_.pop_front();
  } else if (!patient_.empty() && !session_.requests().busy()) {
    item = std::move(patient_.begin()->second);
    ids_.at(item->request.request_id) = patient_.end();
    patient_.erase(patient_.begin());
  }
  return item;
}

void Batches::Begin() {
  if (std::exchange(beginning_, true)) return;
  while (!dropped_) {
    std::unique_ptr<Item> item = Next();
    if (item == nullptr) break;
    ++running_;
    Start(Execute(std::move(item)));
  }
  beginning_ = false;
  SetTimer();
}

Task<void> Batches::Execute(std::unique_ptr<Item> item) {
  Task<bool> executing =
      ExecuteItem(session_, item->caller, item->request, WriteChannel::kBackControl, &item->done);
  const bool came = co_await executing;
  --running_;
  if (came && !dropped_) Done(*item);
  item.reset();
  if (dropped_) {
    session_.MaybeForget();
    co_return;
  }
  Report();
  Begin();
}

// ---- Reports -----------------------------------------------------------------------------------

void Batches::Done(Item& item) {
  done_.push_back(item.done);
  report_by_ = std::min(report_by_, item.hurried ? absl::InfinitePast() : item.due);
}

size_t Batches::GroupSize() const {
  Session* channel = session_.channels().back();
  const size_t most =
      channel == nullptr ? 1 : channel->channels().back_control()->most_completions();
  return wanted_ == 0 ? most : std::min<size_t>(wanted_, most);
}

bool Batches::IsDue() const {
  if (done_.empty()) return false;
  const bool all = done_.size() == ids_.size();
  return all || wanted_ == 0 || done_.size() >= GroupSize() || report_by_ <= Loop::Now();
}

void Batches::Report() {
  while (!dropped_ && IsDue()) {
    Session* channel = session_.channels().back();
    if (channel == nullptr) return;
    wire::BcBatchCompletionArgs args;
    const size_t count = std::min(done_.size(), GroupSize());
    args.completions.assign(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count));
    // Without a free credit or buffer: Report is called again when one is free.
    const auto done = [channel](absl::StatusOr<DafsStatus> status) {
      // Otherwise the client would wait for the refused completions.
      if (!status.ok() || *status == DafsStatus::kOk) return;
      channel->connection().End(absl::DataLossError(
          absl::StrCat("the client refuses a directive: ", Text(wire::Name(*status)))));
    };
    if (!channel->channels().back_control()->TrySend(args, done)) return;
    for (const wire::CompletionNotification& done : args.completions) ids_.erase(done.request_id);
    done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count));
    if (done_.empty()) report_by_ = absl::InfiniteFuture();
  }
}

// ---- Windows -----------------------------------------------------------------------------------

void Batches::SetTimer() {
  absl::Time next = absl::InfiniteFuture();
  if (!patient_.empty()) next = patient_.begin()->first;
  // An overdue report waits for the channel, not for the timer.
  if (!done_.empty() && report_by_ > Loop::Now()) next = std::min(next, report_by_);
  if (dropped_ || next == timer_at_) return;
  session_.loop().Cancel(std::exchange(timer_, 0));
  timer_at_ = next;
  if (next == absl::InfiniteFuture()) return;
  const absl::Duration delay = std::max(next - Loop::Now(), absl::ZeroDuration());
  timer_ = session_.loop().RunAfter(delay, [this] {
    timer_ = 0;
    timer_at_ = absl::InfiniteFuture();
    OnTimer();
  });
}

void Batches::OnTimer() {
  const absl::Time now = Loop::Now();
  while (!patient_.empty() && patient_.begin()->first <= now) {
    std::unique_ptr<Item> item = std::move(patient_.begin()->second);
    ids_.at(item->request.request_id) = patient_.end();
    patient_.erase(patient_.begin());
    urgent_.push_back(std::move(item));
  }
  Report();
  Begin();
}

void Batches::Drop() {
  dropped_ = true;
  session_.loop().Cancel(std::exchange(timer_, 0));
  patient_.clear();
  urgent_.clear();
  done_.clear();
  ids_.clear();
}

}  // namespace dafs::server
