#include "server/session/directives/callbacks.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/text.h"
#include "server/clients/client_name.h"
#include "server/clients/client_table.h"
#include "server/session/directives/back_control.h"
#include "server/store/holdings/promises/promises.h"
#include "wire/protocol/header.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

// Message offset of the first element of BC_CHANGED: header, fixed section, count.
constexpr size_t kElements = wire::kHeaderSize + 16 + 8;
static_assert(kElements + wire::Changed::kWireSize == Callbacks::kLeastRequestBytes);
// Messages to one client that are not answered. Further calls wait, and go together.
constexpr size_t kMostMessages = 4;

// The bytes of an element with its name: count, content, and padding to the next item.
size_t SizeOf(const Promises::Call& call) {
  return wire::Changed::kWireSize + (call.name.empty() ? 0 : (4 + call.name.size() + 7) / 8 * 8);
}

}  // namespace

class Callbacks::Crowd final : public CallGroup, public std::enable_shared_from_this<Crowd> {
 public:
  Crowd(Callbacks& callbacks, Promisee promisee) : callbacks_(callbacks), promisee_(promisee) {}

  void Next() {
    std::vector<Promises::Call> calls = callbacks_.store_.promises().PickToEnd(promisee_);
    if (calls.empty()) return;
    left_ = calls.size();
    callbacks_.Call(std::move(calls), shared_from_this());
  }
  void Answered() override {
    if (left_.fetch_sub(1) == 1) Next();
  }

 private:
  Callbacks& callbacks_;
  const Promisee promisee_;
  std::atomic<size_t> left_{0};
};

absl::Time Callbacks::Holder::Oldest() const {
  if (!sent.empty()) return sent.begin()->second.front().since;
  return queue.empty() ? absl::InfiniteFuture() : queue.front().since;
}

Callbacks::Items Callbacks::Holder::TakeAll() {
  Items all;
  for (auto& [message, items] : sent)
    std::move(items.begin(), items.end(), std::back_inserter(all));
  std::move(queue.begin(), queue.end(), std::back_inserter(all));
  sent.clear();
  queue.clear();
  return all;
}

void Callbacks::Start(Loop& loop) {
  loop_ = &loop;
  store_.promises().SetOnCrowded(
      [this](Promisee promisee) { std::make_shared<Crowd>(*this, promisee)->Next(); });
  loop.Post([this] { loop_->RunAfter(recall_time_, [this] { EndReturning(); }); });
}

// ---- Clients -----------------------------------------------------------------------------------

uint32_t Callbacks::Admit(Client& client, uint32_t most,
                          const std::shared_ptr<BackControlRoute>& route) {
  uint32_t granted = 0;
  Items over;
  // Before the first promise. Without the mutex: see OnExpired.
  const bool takes_part = most != 0 && clients_.NotePromises(client, true);
  {
    absl::MutexLock lock(&mutex_);
    const Promisee before = client.promisee();
    route->promisee = 0;
    if (!takes_part) {
      store_.promises().Forget(client.client_id());
      store_.promises().Returned(client.client_id_string());
    } else {
      route->promisee =
          store_.promises().Admit(client.client_id(), client.client_id_string(), most, &granted);
    }
    if (const auto holder = holders_.find(before); holder != holders_.end()) {
      over = holder->second->TakeAll();
      holders_.erase(holder);
    }
    if (granted > 0) {
      auto& holder = holders_[route->promisee] = std::make_unique<Holder>();
      holder->name = client.client_id_string();
      holder->route = route;
    }
    client.set_promisee(route->promisee);
  }
  if (granted == 0) clients_.NotePromises(client, false);
  Finish(std::move(over));
  return granted;
}

void Callbacks::Left(Client& client, const std::shared_ptr<BackControlRoute>& route) {
  {
    absl::MutexLock lock(&mutex_);
    const auto holder = holders_.find(route->promisee);
    if (holder == holders_.end() || holder->second->route != route) return;
  }
  Void(route->promisee, "");
  clients_.NotePromises(client, false);
}

void Callbacks::Lost(const std::shared_ptr<BackControlRoute>& route) {
  absl::MutexLock lock(&mutex_);
  const auto holder = holders_.find(route->promisee);
  if (holder == holders_.end() || holder->second->route != route) return;
  holder->second->route = nullptr;
  holder->second->lost = Loop::Now();
  SetTimer();
}

std::shared_ptr<BackControlRoute> Callbacks::RouteOf(const wire::ClientId& client_id) const {
  const Promisee promisee = store_.promises().PromiseeOf(client_id);
  absl::MutexLock lock(&mutex_);
  const auto holder = holders_.find(promisee);
  return holder == holders_.end() ? nullptr : holder->second->route;
}

void Callbacks::Expired(Promisee promisee) { Void(promisee, ""); }

void Callbacks::Forget(const wire::ClientId& client_id, Promisee promisee) {
  store_.promises().Forget(client_id);
  Items over;
  {
    absl::MutexLock lock(&mutex_);
    const auto holder = holders_.find(promisee);
    if (holder == holders_.end()) return;
    over = holder->second->TakeAll();
    holders_.erase(holder);
  }
  Finish(std::move(over));
}

void Callbacks::Void(Promisee promisee, std::string_view why) {
  Items over;
  {
    absl::MutexLock lock(&mutex_);
    const auto holder = holders_.find(promisee);
    if (holder == holders_.end() || holder->second->is_void) return;
    if (!why.empty()) LogVoid(*holder->second, why);
    over = VoidLocked(promisee, *holder->second);
  }
  Finish(std::move(over));
}

// With the mutex held, so that an Admit comes before or after all of it.
Callbacks::Items Callbacks::VoidLocked(Promisee promisee, Holder& holder) {
  holder.is_void = true;
  store_.promises().Void(promisee);
  return holder.TakeAll();
}

void Callbacks::LogVoid(const Holder& holder, std::string_view why) const {
  LogWarning(
      absl::StrCat("client ", ClientName(holder.name), ": ", Text(why),
                   "; its promises are void; it gets new ones after it has dropped its caches"));
}

// ---- Calls -------------------------------------------------------------------------------------

void Callbacks::Call(std::vector<Promises::Call> calls, std::shared_ptr<CallGroup> group) {
  const absl::Time now = Loop::Now();
  Items over;
  std::vector<std::pair<Promisee, std::shared_ptr<BackControlRoute>>> pumps;
  {
    absl::MutexLock lock(&mutex_);
    for (Promises::Call& call : calls) {
      Item item{std::move(call), group, now};
      const auto found = holders_.find(item.call.holder);
      if (found == holders_.end() || found->second->is_void) {
        over.push_back(std::move(item));
        continue;
      }
      Holder& holder = *found->second;
      if (holder.route != nullptr && !std::exchange(holder.posted, true)) {
        pumps.emplace_back(item.call.holder, holder.route);
      }
      holder.queue.push_back(std::move(item));
    }
    if (over.size() < calls.size()) SetTimer();
  }
  for (auto& [promisee, route] : pumps) {
    route->loop.Post([this, to = promisee, by = route] { Pump(to, by); });
  }
  Finish(std::move(over));
}

void Callbacks::Finish(Items items) {
  for (Item& item : items) {
    store_.promises().Dropped(item.call);
    if (item.group != nullptr) item.group->Answered();
  }
}

void Callbacks::Pump(Promisee promisee, const std::shared_ptr<BackControlRoute>& route) {
  while (true) {
    BackControl* const channel = route->channel;
    wire::BcChangedArgs args;
    uint64_t message = 0;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = holders_.find(promisee);
      if (found == holders_.end() || found->second->route != route) return;
      Holder& holder = *found->second;
      holder.posted = false;
      const size_t most = channel == nullptr ? 0 : std::min(kMostMessages, channel->fair_share());
      if (holder.queue.empty() || holder.sent.size() >= most) return;
      Items items = NextMessage(holder, channel->request_bytes());
      args = ArgsOf(items, channel->request_bytes());
      message = ++last_message_;
      holder.sent.emplace(message, std::move(items));
    }
    channel->Send(std::move(args),
                  [this, promisee, message, route](absl::StatusOr<DafsStatus> answer) {
                    OnAnswer(promisee, message, route, answer);
                  });
  }
}

// Returns the calls of the queue that fit in one message, at least one.
Callbacks::Items Callbacks::NextMessage(Holder& holder, size_t request_bytes) {
  Items items;
  size_t bytes = kElements;
  while (!holder.queue.empty() && items.size() < wire::kChangedMax) {
    bytes += SizeOf(holder.queue.front().call);
    if (!items.empty() && bytes > request_bytes) break;
    items.push_back(std::move(holder.queue.front()));
    holder.queue.pop_front();
  }
  return items;
}

wire::BcChangedArgs Callbacks::ArgsOf(const Items& items, size_t request_bytes) const {
  wire::BcChangedArgs args;
  for (const Item& item : items) {
    wire::Changed& changed = args.changed.emplace_back();
    changed.what = item.call.what;
    if (changed.what == wire::kChangedAll) continue;
    changed.filehandle = store_.HandleOf(item.call.key);
    // A message that has no room for the name says that any name changes.
    if (kElements + SizeOf(item.call) <= request_bytes) changed.name = item.call.name;
  }
  return args;
}

void Callbacks::OnAnswer(Promisee promisee, uint64_t message,
                         const std::shared_ptr<BackControlRoute>& route,
                         const absl::StatusOr<DafsStatus>& answer) {
  if (!answer.ok()) return;  // the channel has ended: its calls wait for the client, see Lost
  if (*answer != DafsStatus::kOk) {
    return Void(promisee, absl::StrCat("answered the announcement of a change with ",
                                       Text(wire::Name(*answer))));
  }
  Items over;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = holders_.find(promisee);
    if (found == holders_.end() || found->second->route != route) return;
    auto& sent = found->second->sent;
    if (const auto items = sent.find(message); items != sent.end()) {
      over = std::move(items->second);
      sent.erase(items);
    }
    const absl::Time now = Loop::Now();
    for (const Item& item : over) answers_.Add(now - item.since);
  }
  Finish(std::move(over));
  Pump(promisee, route);
}

LatencyHistogram Callbacks::answers() const {
  absl::MutexLock lock(&mutex_);
  return answers_;
}

// ---- Time limits -------------------------------------------------------------------------------

absl::Time Callbacks::Due(const Holder& holder) const {
  if (holder.is_void) return absl::InfiniteFuture();
  const absl::Duration limit = holder.is_overdue ? recall_time_ : recall_time_ / 2;
  return std::min(holder.lost, holder.Oldest()) + limit;
}

// The next limit is always at least half of recall_time_ after an event or after the limit before.
// So the first one is due when the timer ends, and later ones come after it.
void Callbacks::SetTimer() {
  if (std::exchange(timer_set_, true)) return;
  loop_->Post([this] { loop_->RunAfter(recall_time_ / 2, [this] { OnTimer(); }); });
}

void Callbacks::OnTimer() {
  const absl::Time now = Loop::Now();
  absl::Time next = absl::InfiniteFuture();
  Items over;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [promisee, holder] : holders_) {
      if (Due(*holder) <= now && !std::exchange(holder->is_overdue, true)) {
        store_.promises().Overdue(promisee, now);
      }
      if (Due(*holder) > now) {
        next = std::min(next, Due(*holder));
        continue;
      }
      LogOverdue(*holder);
      Items its = VoidLocked(promisee, *holder);
      std::move(its.begin(), its.end(), std::back_inserter(over));
    }
    timer_set_ = next != absl::InfiniteFuture();
  }
  if (next != absl::InfiniteFuture()) loop_->RunAfter(next - now, [this] { OnTimer(); });
  Finish(std::move(over));
}

void Callbacks::LogOverdue(const Holder& holder) const {
  const std::string time = absl::FormatDuration(recall_time_);
  if (holder.route != nullptr) {
    return LogVoid(holder, absl::StrCat("no answer within ", time,
                                        " (--recall-time) to the announcement of a change, which "
                                        "waited; check its machine and the network to it"));
  }
  LogNotice(absl::StrCat("client ", ClientName(holder.name), ": has not reconnected ", time,
                         " after its session was lost; its promises have ended"));
}

void Callbacks::EndReturning() {
  for (const std::string& name : store_.promises().EndReturning()) {
    if (name == ClientRecords::kUnknownClient) continue;
    LogNotice(absl::StrCat("client ", ClientName(name), ": has not reconnected ",
                           absl::FormatDuration(recall_time_),
                           " after the start; its promises have ended"));
  }
  clients_.EndReturning();
}

}  // namespace dafs::server
