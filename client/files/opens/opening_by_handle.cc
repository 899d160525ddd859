// Opens of existing files by their handles: under a delegation, in exchange for one, or plainly.
#include <utility>

#include "client/files/opens/delegating.h"
#include "client/files/opens/open_call.h"
#include "client/files/opens/opening.h"
#include "client/files/shared/attributes.h"
#include "client/recovery/calls/operation.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// The effect on `before`, a read delegation of this client, of an OPEN that wanted a delegation.
Delegations::Outcome OutcomeOf(const OpenCall<wire::OpenDelegatedArgs>& open,
                               const Delegation& before) {
  using Outcome = Delegations::Outcome;
  if (!open.answered) return Outcome::kUnknown;
  if (!open.ok()) return Outcome::kKept;
  const bool same = open.res.delegation_type == wire::OpenDelegationType::kWrite &&
                    open.res.delegation_state_id == before.state_id;
  return same ? Outcome::kWrite : Outcome::kEnded;
}

}  // namespace

// Opens by one of the procedures that take a file handle. NOTSUPP sets `unknown`. If it is set, the
// OpenFile returned has no state.
template <class Args>
Task<absl::StatusOr<OpenFile>> OpenOperations::OpenByCall(const Identity& user, Call<Args>& open,
                                                          std::atomic<bool>& unknown) {
  OpenFile file;
  file.handle = open.args.filehandle;
  if (unknown.load(std::memory_order_relaxed)) co_return file;
  StatCall stat;
  CallBase* const chain[] = {&open, &stat};
  Task<absl::Status> task = Run(&user, chain);
  CO_RETURN_IF_ERROR(co_await task);
  if (open.ok() && stat.ok()) {
    file.handle = open.res.filehandle;
    file.state_id = open.res.state_id;
    file.attributes = stat.Take();
    co_return file;
  }
  if (open.ok()) {
    Task<absl::Status> closing = Close(open.res.state_id);
    absl::Status ignored = co_await closing;
    co_return StatusOf(stat, "open by handle");
  }
  if (open.status != wire::DafsStatus::kNotSupp) co_return StatusOf(open, "open by handle");
  unknown.store(true, std::memory_order_relaxed);
  co_return file;
}

std::optional<OpenFile> OpenOperations::OpenLocally(const Identity& user,
                                                    const wire::FileHandle& file,
                                                    uint32_t share_access, std::string_view owner) {
  return OpenUnder(user, file, share_access, owner, true);
}

std::optional<OpenFile> OpenOperations::OpenUnder(const Identity& user,
                                                  const wire::FileHandle& file,
                                                  uint32_t share_access, std::string_view owner,
                                                  bool exact) {
  if (!client_.options().delegations) return std::nullopt;
  OpenInfo info;
  info.handle = file;
  info.owner = owner;
  info.share_access = share_access;
  info.user = user;
  std::optional<Delegations::LocalOpen> local = client_.delegations().Open(info, exact);
  if (!local.has_value()) return std::nullopt;
  OpenFile open;
  open.handle = file;
  open.state_id = local->open;
  open.attributes.owner = std::move(local->owner);
  open.attributes.set(wire::kFattrOwner);
  open.delegation = local->delegation;
  open.is_local = true;
  return open;
}

void OpenOperations::StopLocalOpens(const wire::FileHandle& file) {
  if (client_.options().delegations) client_.delegations().StopLocalOpens(file);
}

bool OpenOperations::IsProtected(const wire::FileHandle& file) const {
  return client_.options().delegations && client_.delegations().Protects(file);
}

void OpenOperations::Unused(const wire::FileHandle& file) {
  if (!client_.options().delegations) return;
  client_.delegations().Drop(file);
  delegating_.ReturnDue();
}

// The attributes that later local opens need are known: those of the file at present.
void OpenOperations::Settle(OpenFile& file, bool only_clients) {
  file.delegation =
      client_.delegations().Settle(file.state_id, only_clients, file.attributes.owner);
}

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenDelegated(const Identity& user,
                                                             const wire::FileHandle& handle,
                                                             uint32_t share_access,
                                                             std::string_view owner,
                                                             Delegations::Plan plan) {
  OpenCall<wire::OpenDelegatedArgs> open(client_, user);
  StatCall stat;
  open.args.filehandle = handle;
  open.args.share_access = share_access | wire::kShareWantOpenXorDelegation;
  open.args.owner = owner;
  open.args.want = (share_access & wire::kShareWrite) != 0 ? wire::OpenDelegationType::kWrite
                                                           : wire::OpenDelegationType::kRead;
  CallBase* const chain[] = {&open, &stat};
  Task<absl::Status> task =
      delegating_.RunReturning(std::move(plan.give_back), &user, chain, "open by handle");
  absl::Status status = co_await task;
  if (plan.upgraded != nullptr) {
    client_.delegations().Upgraded(plan.upgraded, OutcomeOf(open, *plan.upgraded));
  }
  delegating_.ReturnDue();
  if (!status.ok()) {
    if (open.ok()) {
      Task<absl::Status> closing = Close(open.res.state_id);
      absl::Status ignored = co_await closing;
    }
    co_return status;
  }
  OpenFile file;
  file.handle = open.res.filehandle;
  file.state_id = open.res.state_id;
  file.attributes = stat.Take();
  if (open.res.delegation_type != wire::OpenDelegationType::kNone) {
    Settle(file, ((open.spec_cond | stat.spec_cond) & wire::kSpcondOnlyClients) != 0);
  }
  co_return file;
}

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenByHandle(const Identity& user,
                                                            const wire::FileHandle& handle,
                                                            uint32_t share_access,
                                                            std::string_view owner) {
  if (std::optional<OpenFile> local = OpenUnder(user, handle, share_access, owner, false)) {
    Task<absl::StatusOr<Attributes>> getting = attributes_.GetAttributes(user, handle);
    absl::StatusOr<Attributes> attributes = co_await getting;
    if (attributes.ok()) {
      local->attributes = *std::move(attributes);
      local->is_local = false;
      co_return *std::move(local);
    }
    Task<absl::Status> closing = Close(local->state_id);
    absl::Status ignored = co_await closing;
    co_return attributes.status();
  }
  if (delegating_.Wanted()) {
    Delegations::Plan plan = client_.delegations().PlanOpen(handle, user, share_access);
    if (plan.delegated) {
      Task<absl::StatusOr<OpenFile>> asking =
          OpenDelegated(user, handle, share_access, owner, std::move(plan));
      absl::StatusOr<OpenFile> opened = co_await asking;
      co_return opened;
    }
  }
  if ((share_access & wire::kShareWrite) != 0) client_.delegations().LeaseEnds(handle);
  OpenCall<wire::OpenHandleArgs> open(client_, user);
  open.args.filehandle = handle;
  open.args.share_access = share_access;
  open.args.owner = owner;
  Task<absl::StatusOr<OpenFile>> opening = OpenByCall(user, open, client_.limits().no_open_handle);
  absl::StatusOr<OpenFile> file = co_await opening;
  if (!file.ok() || !file->state_id.is_zero()) co_return file;
  // WIRE R64: the zero state id is "no state", accepted by READ and WRITE.
  Task<absl::StatusOr<Attributes>> getting = attributes_.GetAttributes(user, handle);
  absl::StatusOr<Attributes> attributes = co_await getting;
  if (!attributes.ok()) co_return attributes.status();
  file->attributes = *std::move(attributes);
  co_return file;
}

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenForExecution(const Identity& user,
                                                                const wire::FileHandle& handle,
                                                                std::string_view owner) {
  // Most programs may be read, too. Then the next execution may need no request.
  if (delegating_.Wanted()) {
    Task<absl::StatusOr<OpenFile>> delegating = OpenByHandle(user, handle, wire::kShareRead, owner);
    absl::StatusOr<OpenFile> delegated = co_await delegating;
    if (wire::DafsFromStatus(delegated.status()) != wire::DafsStatus::kAcces) co_return delegated;
  }
  OpenCall<wire::OpenExecuteArgs> open(client_, user);
  open.args.filehandle = handle;
  open.args.owner = owner;
  Task<absl::StatusOr<OpenFile>> opening = OpenByCall(user, open, client_.limits().no_open_execute);
  absl::StatusOr<OpenFile> file = co_await opening;
  if (!file.ok() || !file->state_id.is_zero()) co_return file;
  Task<absl::StatusOr<OpenFile>> reading = OpenByHandle(user, handle, wire::kShareRead, owner);
  file = co_await reading;
  co_return file;
}

}  // namespace dafs::client
