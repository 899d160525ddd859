#include "client/files/opens/delegating.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <memory>
#include <utility>

#include "client/exchange/call.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/committer.h"
#include "client/recovery/reclaim.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/status_macros.h"
#include "wire/messages/posix.h"

namespace dafs::client {

using wire::LockRange;

namespace {

constexpr absl::Duration kRecent = absl::Seconds(1);
constexpr size_t kMostRunners = 2;  // of ReturnUnused: each takes up to kMaxChain slots

// A call whose state id is the server's, not a name of Opens.
template <class Args>
class RawCall : public Call<Args> {
 public:
  wire::StateId* state_id_argument() override { return nullptr; }
};

class ReturnCall : public RawCall<wire::DelegreturnArgs> {
 public:
  explicit ReturnCall(const Delegation& delegation) { args.state_id = delegation.state_id; }
};

}  // namespace

bool DelegationOperations::Wanted() const {
  const uint64_t extensions = client_.limits().extensions.load(std::memory_order_relaxed);
  return client_.options().delegations && (extensions & wire::kExtensionOpenXorDelegation) != 0 &&
         client_.promises().active();
}

// ---- Local opens become opens at the server ----------------------------------------------------

Task<absl::Status> DelegationOperations::MakeReal(const wire::StateId& open) {
  for (;;) {
    DelegationLocks::MakingReal begun = client_.delegations().locks().BeginMakingReal(open);
    if (begun.is_busy) {  // for a few round trips, and seldom
      Task<absl::Status> pause = session_keeper_.Pause(absl::Milliseconds(1));
      CO_RETURN_IF_ERROR(co_await pause);
      continue;
    }
    if (begun.lender == nullptr) co_return absl::OkStatus();
    Task<absl::Status> converting = Convert(std::move(begun.lender), open);
    absl::Status status = co_await converting;
    client_.delegations().locks().EndMakingReal(open);
    co_return status;
  }
}

Task<absl::Status> DelegationOperations::Convert(DelegationPtr delegation, wire::StateId open) {
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
  if (info == nullptr) co_return absl::OkStatus();  // closed meanwhile
  const std::vector<LockRange> locks = client_.locks().HeldBy(delegation->file, open);
  ServerOpen opened;
  Task<absl::Status> opening = OpenWithLocks(*delegation, *info, locks, &opened);
  absl::Status status = co_await opening;
  if (opened.is_refused && !opened.state_id.is_zero()) {
    // Before it is claimed: that is an open of the same owner, which the CLOSE would end.
    Task<void> closing = CloseUnused(delegation, std::exchange(opened.state_id, {}));
    co_await closing;
  }
  if (opened.state_id.is_zero()) {
    if (opened.is_refused) client_.delegations().Forgotten(delegation, open);
    co_return status;
  }
  if (!client_.delegations().MadeReal(open, opened.state_id, opened.client_id)) {
    Start(CloseUnused(delegation, opened.state_id));  // closed meanwhile
  } else if (!status.ok()) {
    executor_.reclaim().GiveUpOpen(open, status);
  }
  co_return status;
}

// OPEN_OWNER makes an open with the access of the delegation, whatever the present mode of the
// file, and even if it has lost its name. If that is less than the access of the local open,
// because an OPEN_DOWNGRADE came before, the open is refused. Another error with an `opened`: a
// lock was not granted.
Task<absl::Status> DelegationOperations::OpenWithLocks(const Delegation& delegation,
                                                       const OpenInfo& info,
                                                       const std::vector<LockRange>& locks,
                                                       ServerOpen* opened) {
  RawCall<wire::OpenOwnerArgs> owner;
  owner.args.filehandle = delegation.file;
  owner.args.state_id = delegation.state_id;
  owner.args.owner = info.owner;
  RawCall<wire::OpenDowngradeArgs> reduce;
  reduce.chf_fh = reduce.chf_state_id = true;
  reduce.args.share_access = info.share_access;
  reduce.args.share_deny = wire::kShareDenyNone;
  std::deque<RawCall<wire::LockArgs>> lock_calls;
  std::vector<CallBase*> chain = {&owner};
  const bool reduces = client_.delegations().returns().WasWrite(delegation);
  if (reduces) chain.push_back(&reduce);
  auto next = locks.begin();
  do {
    for (; next != locks.end() && chain.size() < kMaxChain; ++next) {
      RawCall<wire::LockArgs>& lock = lock_calls.emplace_back();
      lock.args.filehandle = delegation.file;
      lock.args.state_id = opened->state_id;
      lock.chf_fh = lock.chf_state_id = opened->state_id.is_zero();
      lock.args.lock_type = wire::TypeOf(*next);
      lock.args.offset = next->first;
      lock.args.length = wire::LengthOf(*next);
      chain.push_back(&lock);
    }
    Task<absl::Status> task = Run(&info.user, chain);
    absl::Status status = co_await task;
    if (!owner.ok()) {
      opened->is_refused = status.ok();
      co_return status.ok() ? StatusOf(owner, "open what was open under a delegation") : status;
    }
    opened->state_id = owner.res.state_id;
    opened->client_id = owner.xid.client_id;
    if (reduces && status.ok() && !reduce.ok()) {
      opened->is_refused = true;
      co_return absl::AbortedError("the delegation permits less than what is open under it");
    }
    for (const RawCall<wire::LockArgs>& lock : lock_calls) {
      if (status.ok() && !lock.ok()) status = StatusOf(lock, "lock what was locked locally");
    }
    CO_RETURN_IF_ERROR(status);
    chain.clear();
    lock_calls.clear();
  } while (next != locks.end());
  co_return absl::OkStatus();
}

Task<void> DelegationOperations::CloseUnused(DelegationPtr delegation, wire::StateId state_id) {
  RawCall<wire::CloseArgs> close;
  close.args.filehandle = delegation->file;
  close.args.state_id = state_id;
  CallBase* const chain[] = {&close};
  Task<absl::Status> task = Run(&delegation->user, chain);
  absl::Status ignored = co_await task;
}

// ---- Return ------------------------------------------------------------------------------------

void DelegationOperations::ReturnDue() {
  if (!client_.delegations().returns().any_due()) return;
  for (DelegationPtr& delegation : client_.delegations().returns().TakeDue()) {
    if (client_.delegations().returns().LocalsOf(*delegation).empty()) {
      unused_.push_back(std::move(delegation));
    } else {
      Start(ReturnInUse(std::move(delegation)));
    }
  }
  while (runners_ < kMostRunners && runners_ * kMaxChain < unused_.size()) Start(ReturnUnused());
}

void DelegationOperations::ReturnDueIfAnswered() {
  if (!client_.delegations().returns().any_due()) return;
  const Session* const session = session_keeper_.session();
  if (session != nullptr && Loop::Now() - session->last_heard() < kRecent) return ReturnDue();
  if (!std::exchange(asking_, true)) Start(ReturnDueAfterNull());
}

Task<void> DelegationOperations::ReturnDueAfterNull() {
  Call<wire::NullArgs> null;
  CallBase* const chain[] = {&null};
  Task<absl::Status> task = Run(nullptr, chain);
  const absl::Status status = co_await task;
  asking_ = false;
  if (status.ok()) ReturnDue();
}

// Not in one chain: a request that is sent meanwhile finds the delegation or the open that takes
// its place.
Task<void> DelegationOperations::ReturnInUse(DelegationPtr delegation) {
  ++returning_;
  const std::vector<wire::StateId> opens = client_.delegations().returns().LocalsOf(*delegation);
  for (const wire::StateId& open : opens) {
    Task<absl::Status> converting = MakeReal(open);
    absl::Status ignored = co_await converting;  // the next use of the open reclaims it
  }
  Task<void> task = Return(delegation, false);
  co_await task;
  for (const wire::StateId& open : opens) {
    // One that the server refused, because it had ended the delegation, is claimed at once: another
    // client may take its locks, or remove the file. Losses are reported.
    Task<absl::Status> reclaiming = executor_.reclaim().ReclaimOpen(open);
    absl::Status ignored = co_await reclaiming;
  }
  client_.locks().WakeAll(delegation->file);
  --returning_;
}

// Unlocking under a delegation commits nothing. Other clients may lock the file after its return:
// what was written under locks must not be written again then (docs/caching.md).
Task<void> DelegationOperations::CommitIfLocked(DelegationPtr delegation) {
  if (!client_.uncommitted().Holds(delegation->file) ||
      !client_.delegations().returns().WasLocked(*delegation)) {
    co_return;
  }
  Task<absl::StatusOr<wire::Verifier>> task =
      committer_.CommitAll(delegation->user, delegation->file, 0, 0);
  absl::StatusOr<wire::Verifier> ignored = co_await task;  // fsync reports an error
}

Task<void> DelegationOperations::ReturnUnused() {
  ++runners_;
  ++returning_;
  while (!unused_.empty()) {
    const size_t count = std::min(unused_.size(), kMaxChain);
    std::vector<DelegationPtr> some(
        std::make_move_iterator(std::prev(unused_.end(), static_cast<std::ptrdiff_t>(count))),
        std::make_move_iterator(unused_.end()));
    unused_.resize(unused_.size() - count);
    Task<void> task = ReturnTogether(std::move(some));
    co_await task;
  }
  --runners_;
  --returning_;
}

// False if the server was restarted since.
bool DelegationOperations::IsOfServer(const Delegation& delegation) const {
  const Session* const session = session_keeper_.session();
  return session == nullptr || session->negotiated().client_id == delegation.client_id;
}

// A delegation that the server does not know breaks the chain: the rest follows in another one.
Task<void> DelegationOperations::ReturnTogether(std::vector<DelegationPtr> delegations) {
  std::vector<std::unique_ptr<ReturnCall>> calls;
  std::vector<CallBase*> chain;
  for (const DelegationPtr& delegation : delegations) {
    if (!IsOfServer(*delegation)) continue;
    Task<void> committing = CommitIfLocked(delegation);
    co_await committing;
    calls.push_back(std::make_unique<ReturnCall>(*delegation));
    chain.push_back(calls.back().get());
  }
  while (!chain.empty()) {
    Task<absl::Status> task = Run(nullptr, chain);
    const absl::Status status = co_await task;
    if (!status.ok()) break;
    const auto failed =
        std::find_if(chain.begin(), chain.end(), [](const CallBase* call) { return !call->ok(); });
    chain.erase(chain.begin(), failed == chain.end() ? failed : failed + 1);
  }
  for (const DelegationPtr& delegation : delegations)
    client_.delegations().returns().Returned(delegation);
}

Task<void> DelegationOperations::Return(DelegationPtr delegation, bool can_wait) {
  ReturnCall call(*delegation);
  call.can_wait = can_wait;
  CallBase* const chain[] = {&call};
  Task<void> committing = CommitIfLocked(delegation);
  co_await committing;
  if (IsOfServer(*delegation)) {
    Task<absl::Status> task = Run(nullptr, chain);
    absl::Status ignored = co_await task;
  }
  client_.delegations().returns().Returned(delegation);
}

Task<void> DelegationOperations::Downgrade(DelegationPtr delegation, bool can_wait) {
  RawCall<wire::OpenDowngradeArgs> call;
  call.can_wait = can_wait;
  call.args.filehandle = delegation->file;
  call.args.state_id = delegation->state_id;
  call.args.share_access = wire::kShareRead;
  call.args.share_deny = wire::kShareDenyNone;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = Run(&delegation->user, chain);
  const absl::Status status = co_await task;
  client_.delegations().Downgraded(delegation, status.ok() && call.ok());
  ReturnDue();
}

Task<absl::Status> DelegationOperations::RunReturning(DelegationPtr given, const Identity* user,
                                                      std::span<CallBase* const> chain,
                                                      std::string_view what, size_t extra) {
  if (given == nullptr) {
    Task<absl::Status> task = RunAll(user, chain, what, extra);
    absl::Status status = co_await task;
    co_return status;
  }
  Task<void> committing = CommitIfLocked(given);
  co_await committing;
  ReturnCall back(*given);
  std::array<CallBase*, kMaxChain> all = {&back};
  std::copy(chain.begin(), chain.end(), all.begin() + 1);
  Task<absl::Status> task = Run(user, std::span(all).first(chain.size() + 1));
  absl::Status status = co_await task;
  client_.delegations().returns().Returned(given);
  if (status.ok() && !back.ok()) {
    Task<absl::Status> again = RunAll(user, chain, what, extra);
    status = co_await again;
    co_return status;
  }
  for (const CallBase* call : chain.first(chain.size() - extra)) {
    if (status.ok() && !call->ok()) status = StatusOf(*call, what);
  }
  co_return status;
}

}  // namespace dafs::client
