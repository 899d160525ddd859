#include "client/status/promise_keeper.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/exchange/call.h"
#include "client/files/files.h"
#include "client/state/locks.h"
#include "runtime/log/log.h"
#include "runtime/size_text.h"
#include "runtime/text.h"
#include "wire/messages/messages.h"
#include "wire/protocol/status.h"

namespace dafs::client {
namespace {

constexpr uint32_t kMostPromises = 262144;  // the kernel keeps fewer inodes on most machines

}  // namespace

class PromiseKeeper::Relay {
 public:
  explicit Relay(Loop& loop) : loop_(&loop) {}
  void Post(absl::AnyInvocable<void()> function) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (loop_ != nullptr) loop_->Post(std::move(function));
  }
  // Drops what is posted from now on.
  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    loop_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  Loop* loop_ ABSL_GUARDED_BY(mutex_);
};

// Waits for the observer to drop everything that a directive names. The functions from MakeDropped
// own it, and they may run on any thread.
class PromiseKeeper::Drops : public std::enable_shared_from_this<Drops> {
 public:
  // `done` runs on the loop.
  Drops(std::shared_ptr<Relay> relay, absl::AnyInvocable<void()> done)
      : relay_(std::move(relay)), done_(std::move(done)) {}

  // Returns a function to be called once; further calls have no effect.
  absl::AnyInvocable<void()> MakeDropped() {
    missing_.fetch_add(1);
    return [self = shared_from_this()]() mutable {
      const std::shared_ptr<Drops> drops = std::exchange(self, nullptr);
      if (drops != nullptr && drops->missing_.fetch_sub(1) == 1) {
        drops->relay_->Post([drops] { drops->done_(); });
      }
    };
  }
  // All functions were made. Call on the loop: `done` runs at once if nothing is missing.
  void Await() {
    if (missing_.fetch_sub(1) == 1) done_();
  }

 private:
  const std::shared_ptr<Relay> relay_;
  absl::AnyInvocable<void()> done_;
  std::atomic<size_t> missing_{1};  // functions that were not called, and Await
};

PromiseKeeper::PromiseKeeper(Client& client, Loop& loop, SessionKeeper& session_keeper,
                             PromiseObserver* observer)
    : client_(client),
      promises_(client.promises()),
      loop_(loop),
      session_keeper_(session_keeper),
      observer_(observer),
      relay_(std::make_shared<Relay>(loop)) {
  promises_.OnVoid([this, relay = relay_] { relay->Post([this] { Voided(); }); });
}

PromiseKeeper::~PromiseKeeper() {
  Shutdown();
  relay_->End();
}

void PromiseKeeper::Shutdown() {
  if (std::exchange(shut_down_, true)) return;
  promises_.OnVoid(nullptr);
  promises_.End();  // what is delegated is returned by Files::Disconnect
  loop_.Cancel(std::exchange(watch_, 0));
}

void PromiseKeeper::SessionReady(Session& session) {
  session.OnDirective(this);
  Renew();
}

void PromiseKeeper::SessionLost() {
  client_.locks().SetAnnounced(false);
  if (promises_.offered()) Renew();
}

// ---- Requesting promises ---------------------------------------------------------------------

void PromiseKeeper::Voided() {
  if (state_ == State::kIdle && !nothing_kept_ && promises_.offered()) {
    LogNotice(absl::StrCat(client_.options().server_name,
                           ": the server has ended all promises to this client; dropping what is "
                           "cached and requesting new ones"));
  }
  Renew();
}

// Ends all promises and requests new ones, over the next session if there is none now. Drops what
// is cached first. But a server that gives none must cost nothing: until the first grant nothing
// is dropped.
void PromiseKeeper::Renew() {
  if (shut_down_) return;
  EndPromises();
  loop_.Cancel(std::exchange(watch_, 0));
  if (state_ == State::kAsking) again_ = true;
  if (state_ != State::kIdle) return;
  if (nothing_kept_ || !promises_.offered()) return Dropped();
  state_ = State::kDropping;
  auto drops = std::make_shared<Drops>(relay_, [this] {
    state_ = State::kIdle;
    nothing_kept_ = true;
    Dropped();
  });
  if (observer_ != nullptr) observer_->OnVoid(drops->MakeDropped());
  drops->Await();
}

// Delegations that were granted before cannot be recalled for sure.
void PromiseKeeper::EndPromises() {
  promises_.End();
  client_.delegations().returns().EndAll();
  ReturnDelegations();
}

// The first worker whose session does not hang does it for all.
void PromiseKeeper::ReturnDelegations() {
  if (!client_.delegations().returns().any_due()) return;
  client_.ForEachWorker([](Files& files) {
    files.loop().Post([&files] { files.delegating().ReturnDueIfAnswered(); });
  });
}

void PromiseKeeper::Suspend(absl::AnyInvocable<void()> ended) {
  suspended_ = true;
  on_ended_ = std::move(ended);
  Renew();
}

void PromiseKeeper::Suspended() {
  if (on_ended_) std::exchange(on_ended_, nullptr)();
}

void PromiseKeeper::Resume() {
  on_ended_ = nullptr;
  if (std::exchange(suspended_, false)) Renew();
}

// Nothing is cached any more, or the server has never given a promise.
void PromiseKeeper::Dropped() {
  Session* const session = session_keeper_.session();
  if (suspended_ && (session == nullptr || !session->back_control_bound())) return Suspended();
  if (session == nullptr || shut_down_) return;  // SessionReady follows
  if (!session->back_control_bound()) return Refused("there is no Back-control Channel");
  Start(Ask(*session));
}

Task<void> PromiseKeeper::Ask(Session& session) {
  state_ = State::kAsking;
  again_ = false;
  const bool known = promises_.offered();
  if (known) promises_.Ask();
  if (client_.options().delegations && !std::exchange(purged_, true)) {
    Task<void> purging = Purge(session);
    co_await purging;
  }
  Call<wire::PromisesArgs> call;
  // Without promises the server grants no delegations either, and announces free locks only.
  const bool suspends = suspended_;
  call.args.most = client_.options().promises && !suspends ? kMostPromises : 0;
  CallBase* const chain[] = {&call};
  Task<absl::Status> asking = session.Run(wire::CredHandle(), chain, absl::InfiniteFuture());
  const absl::Status status = co_await asking;
  state_ = State::kIdle;
  if (shut_down_) co_return;
  if (suspends && suspended_) {
    Suspended();
    co_return;
  }
  if (suspends != suspended_) {
    Renew();
    co_return;
  }
  if (!status.ok()) {
    // A damaged response, or the session was replaced. Without a session, SessionReady follows.
    if (session_keeper_.session() != nullptr) Renew();
    co_return;
  }
  if (!call.ok()) {
    Refused(wire::Name(call.status));
    co_return;
  }
  client_.locks().SetAnnounced(call.res.recall_ms != 0);
  if (call.res.granted == 0 || call.res.recall_ms == 0) {
    NotGranted("it grants no promises");
    co_return;
  }
  refused_ = false;
  if (!known) {
    // Entries cached by time would outlast the promises: from now on none are.
    promises_.Ask();
    Renew();
    co_return;
  }
  recall_ = absl::Milliseconds(call.res.recall_ms);
  if (again_ || !promises_.Begin(recall_)) {
    Renew();
    co_return;
  }
  nothing_kept_ = false;
  Watch();
}

// This run of the client claims no delegations of an earlier one.
Task<void> PromiseKeeper::Purge(Session& session) {
  Call<wire::DelegpurgeArgs> call;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = session.Run(wire::CredHandle(), chain, absl::InfiniteFuture());
  const absl::Status ignored = co_await task;  // then PROMISES fails, too
}

void PromiseKeeper::Refused(std::string_view why) {
  client_.locks().SetAnnounced(false);
  NotGranted(why);
}

void PromiseKeeper::NotGranted(std::string_view why) {
  promises_.Refuse();
  if (std::exchange(refused_, true) || !client_.options().promises) return;
  LogInfo(absl::StrCat(client_.options().server_name, ": the server announces no changes: ",
                       Text(why), "; attributes and names are cached by time"));
}

// ---- Silence ---------------------------------------------------------------------------------

// The server may end the promises of a client that it cannot reach for `recall_`. So they are good
// for that long after the last request that was answered, and a request is sent in time. To drop
// what is cached takes a part of that time.
void PromiseKeeper::Watch() {
  watch_ = 0;
  const absl::Duration quiet = Loop::Now() - client_.last_activity();
  const absl::Duration most = recall_ / 2;
  if (quiet >= most) {
    LogNotice(absl::StrCat(client_.options().server_name, ": no answer for ",
                           MillisecondsText(quiet),
                           ": the promises of the server are void; dropping what is cached"));
    return Renew();
  }
  const absl::Duration period = recall_ / 8;
  if (quiet >= period) Probe();
  const absl::Duration next = quiet < period ? period - quiet : period;
  watch_ = loop_.RunAfter(std::max(std::min(next, most - quiet), absl::Milliseconds(1)),
                          [this] { Watch(); });
}

void PromiseKeeper::Probe() {
  Session* const session = session_keeper_.session();
  if (session != nullptr && !std::exchange(probing_, true)) Start(SendNull(*session));
}

Task<void> PromiseKeeper::SendNull(Session& session) {
  Call<wire::NullArgs> null;
  CallBase* const chain[] = {&null};
  Task<absl::Status> task = session.Run(wire::CredHandle(), chain, absl::InfiniteFuture());
  const absl::Status ignored = co_await task;  // the session reports its own end
  probing_ = false;
}

// ---- Announced changes -----------------------------------------------------------------------

void PromiseKeeper::OnChanged(std::vector<wire::Changed> changed,
                              absl::AnyInvocable<void()> answer) {
  auto drops = std::make_shared<Drops>(relay_, [this, since = Loop::Now(), count = changed.size(),
                                                answer = std::move(answer)]() mutable {
    promises_.NoteBreaks(count, Loop::Now() - since);
    answer();
  });
  const bool all = std::any_of(changed.begin(), changed.end(), [](const wire::Changed& change) {
    return (change.what & wire::kChangedAll) != 0;
  });
  if (all) {
    promises_.ChangedAll();
    if (observer_ != nullptr) observer_->OnVoid(drops->MakeDropped());
  } else {
    for (const wire::Changed& change : changed) DropChanged(change, drops);
  }
  drops->Await();
}

void PromiseKeeper::OnLockFree(const wire::FileHandle& file, uint64_t offset, uint64_t length) {
  client_.locks().Announce(file, offset, length);
}

wire::DafsStatus PromiseKeeper::OnRecall(const wire::FileHandle& file,
                                         const wire::StateId& state_id) {
  // The server asks whether an open is in use.
  if (client_.opens().HasStateId(state_id)) return wire::DafsStatus::kOk;
  const wire::DafsStatus status = client_.delegations().returns().Recall(file, state_id);
  ReturnDelegations();
  return status;
}

bool PromiseKeeper::HoldsWriteDelegation(const wire::FileHandle& file) {
  return client_.delegations().HoldsWrite(file);
}

void PromiseKeeper::DropChanged(const wire::Changed& change, const std::shared_ptr<Drops>& drops) {
  // Users of the root know it by the handle that was found first.
  const wire::FileHandle object =
      client_.root().Kept(change.filehandle).value_or(change.filehandle);
  promises_.Changed(object);
  if (observer_ == nullptr) return;
  observer_->OnChanged(object, change.what, change.name, drops->MakeDropped());
}

}  // namespace dafs::client
