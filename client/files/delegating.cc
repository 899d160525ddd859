#include "client/files/delegating.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>

#include "client/recovery/operation.h"
#include "client/session/call.h"
#include "client/session/connection.h"
#include "client/session/session.h"
#include "runtime/status_macros.h"
#include "wire/messages/posix.h"

namespace dafs::client {
namespace {

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
  const DelegationPtr lender = client_.delegations().LenderOf(open);
  if (lender == nullptr) co_return absl::OkStatus();
  Task<absl::Status> converting = Convert(lender, open);
  absl::Status status = co_await converting;
  co_return status;
}

// OPEN_OWNER makes an open with the access of the delegation, whatever the present mode of the
// file, and even if it has lost its name.
Task<absl::Status> DelegationOperations::Convert(DelegationPtr delegation, wire::StateId open) {
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
  if (info == nullptr) co_return absl::OkStatus();  // closed meanwhile
  RawCall<wire::OpenOwnerArgs> owner;
  owner.args.filehandle = delegation->file;
  owner.args.state_id = delegation->state_id;
  owner.args.owner = info->owner;
  RawCall<wire::OpenDowngradeArgs> reduce;
  reduce.chf_fh = reduce.chf_state_id = true;
  reduce.args.share_access = info->share_access;
  reduce.args.share_deny = wire::kShareDenyNone;
  CallBase* const chain[] = {&owner, &reduce};
  const bool reduces =
      info->share_access != wire::kShareBoth && client_.delegations().WasWrite(*delegation);
  Task<absl::Status> task = Run(&info->who, std::span(chain).first(reduces ? 2 : 1));
  absl::Status status = co_await task;
  if (!owner.ok()) {
    if (status.ok()) {
      client_.delegations().Forgotten(delegation, open);
      status = StatusOf(owner, "open what was open under a delegation");
    }
    co_return status;
  }
  if (!client_.delegations().MadeReal(open, owner.res.state_id, owner.xid.client_id)) {
    Start(CloseUnused(delegation, owner.res.state_id));  // closed meanwhile
  }
  co_return absl::OkStatus();
}

Task<void> DelegationOperations::CloseUnused(DelegationPtr delegation, wire::StateId state_id) {
  RawCall<wire::CloseArgs> close;
  close.args.filehandle = delegation->file;
  close.args.state_id = state_id;
  CallBase* const chain[] = {&close};
  Task<absl::Status> task = Run(&delegation->who, chain);
  absl::Status ignored = co_await task;
}

// ---- Return ------------------------------------------------------------------------------------

void DelegationOperations::ReturnDue() {
  if (!client_.delegations().any_due()) return;
  for (DelegationPtr& delegation : client_.delegations().TakeDue()) {
    if (client_.delegations().LocalsOf(*delegation).empty()) {
      unused_.push_back(std::move(delegation));
    } else {
      Start(ReturnInUse(std::move(delegation)));
    }
  }
  while (runners_ < kMostRunners && runners_ * kMaxChain < unused_.size()) Start(ReturnUnused());
}

// Not in one chain: a request that is sent meanwhile finds the delegation or the open that takes
// its place.
Task<void> DelegationOperations::ReturnInUse(DelegationPtr delegation) {
  ++returning_;
  for (const wire::StateId& open : client_.delegations().LocalsOf(*delegation)) {
    Task<absl::Status> converting = Convert(delegation, open);
    absl::Status ignored = co_await converting;  // the next use of the open reclaims it
  }
  Task<void> task = Return(delegation, false);
  co_await task;
  --returning_;
}

Task<void> DelegationOperations::ReturnUnused() {
  ++runners_;
  ++returning_;
  while (!unused_.empty()) {
    const size_t count = std::min(unused_.size(), kMaxChain);
    std::vector<DelegationPtr> some(std::make_move_iterator(unused_.end() - count),
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
  const Session* const session = connection_.session();
  return session == nullptr || session->negotiated().client_id == delegation.client_id;
}

// A delegation that the server does not know breaks the chain: the rest follows in another one.
Task<void> DelegationOperations::ReturnTogether(std::vector<DelegationPtr> delegations) {
  std::vector<std::unique_ptr<ReturnCall>> calls;
  std::vector<CallBase*> chain;
  for (const DelegationPtr& delegation : delegations) {
    if (!IsOfServer(*delegation)) continue;
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
  for (const DelegationPtr& delegation : delegations) client_.delegations().Returned(delegation);
}

Task<void> DelegationOperations::Return(DelegationPtr delegation, bool can_wait) {
  ReturnCall call(*delegation);
  call.can_wait = can_wait;
  CallBase* const chain[] = {&call};
  if (IsOfServer(*delegation)) {
    Task<absl::Status> task = Run(nullptr, chain);
    absl::Status ignored = co_await task;
  }
  client_.delegations().Returned(delegation);
}

Task<void> DelegationOperations::Downgrade(DelegationPtr delegation, bool can_wait) {
  RawCall<wire::OpenDowngradeArgs> call;
  call.can_wait = can_wait;
  call.args.filehandle = delegation->file;
  call.args.state_id = delegation->state_id;
  call.args.share_access = wire::kShareRead;
  call.args.share_deny = wire::kShareDenyNone;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = Run(&delegation->who, chain);
  const absl::Status status = co_await task;
  client_.delegations().Downgraded(delegation, status.ok() && call.ok());
  ReturnDue();
}

Task<absl::Status> DelegationOperations::RunReturning(DelegationPtr given, const Identity* who,
                                                      std::span<CallBase* const> chain,
                                                      std::string_view what, size_t extra) {
  if (given == nullptr) {
    Task<absl::Status> task = RunAll(who, chain, what, extra);
    absl::Status status = co_await task;
    co_return status;
  }
  ReturnCall back(*given);
  std::array<CallBase*, kMaxChain> all = {&back};
  std::copy(chain.begin(), chain.end(), all.begin() + 1);
  Task<absl::Status> task = Run(who, std::span(all).first(chain.size() + 1));
  absl::Status status = co_await task;
  client_.delegations().Returned(given);
  if (status.ok() && !back.ok()) {
    Task<absl::Status> again = RunAll(who, chain, what, extra);
    status = co_await again;
    co_return status;
  }
  for (const CallBase* call : chain.first(chain.size() - extra)) {
    if (status.ok() && !call->ok()) status = StatusOf(*call, what);
  }
  co_return status;
}

}  // namespace dafs::client
