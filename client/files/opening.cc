#include "client/files/opening.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/files/attributes.h"
#include "client/files/delegating.h"
#include "client/files/locking.h"
#include "client/recovery/operation.h"
#include "client/session/connection.h"
#include "runtime/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

wire::OpenArgs ArgsOf(const OpenRequest& request) {
  wire::OpenArgs args;
  args.claim_type = wire::OpenClaimType::kNull;
  args.dir_handle = request.directory;
  args.pathname.push_back(request.name);
  args.owner = request.owner;
  args.share_access = request.share_access;
  args.share_deny = request.share_deny;
  if (!request.create) return args;
  args.open_type = wire::OpenType::kCreate;
  args.createmode = request.create_mode;
  if (request.create_mode == wire::CreateMode::kExclusive) {
    args.create_verifier = request.verifier;
  } else {
    args.createattrs = request.attributes;
    if (request.truncate && request.create_mode == wire::CreateMode::kUnchecked) {
      // 6.5.24: of a file that exists, UNCHECKED sets nothing, except that size 0 truncates it.
      args.createattrs.object_size = 0;
      args.createattrs.set(wire::kFattrObjectSize);
    }
  }
  return args;
}

// The attributes that a SETATTR after the OPEN must set.
wire::FileAttributes SetAfterOpen(const OpenRequest& request) {
  wire::FileAttributes attributes;
  if (request.create && request.create_mode == wire::CreateMode::kExclusive) {
    attributes = request.attributes;  // 6.5.24: EXCLUSIVE takes no attributes
  } else if (!request.create && request.truncate) {
    attributes.object_size = 0;
    attributes.set(wire::kFattrObjectSize);
  }
  return attributes;
}

// OPEN, OPEN_HANDLE, OPEN_DELEGATED or OPEN_EXECUTE. Decode gives the open its permanent name and
// stores it in `res`, so that later members of the chain and later operations use that name. If the
// server grants a delegation in place of the open, the open is a local one.
template <class Args>
class OpenCall : public Call<Args> {
 public:
  OpenCall(Client& client, const Identity& who) : client_(client), who_(who) {}

  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = Call<Args>::Decode(message, order, answer);
    if (!status.ok() || answer != wire::DafsStatus::kOk) return status;
    if constexpr (requires { this->res.delegation_type; }) {
      if (this->res.delegation_type != wire::OpenDelegationType::kNone && in_place_of_open()) {
        this->res.state_id =
            client_.delegations().Granted(Info(), this->res, this->xid.client_id, this->asked);
        return status;
      }
    }
    if (this->res.state_id.is_zero()) return status;
    this->res.state_id = client_.opens().Add(Info(), this->res.state_id, this->xid.client_id);
    return status;
  }
  // Wants a delegation in place of the open.
  bool in_place_of_open() const {
    if constexpr (Args::kProc == wire::Proc::kOpenExecute) {
      return false;
    } else {
      return (this->args.share_access & wire::kShareWantOpenXorDelegation) != 0;
    }
  }

 private:
  OpenInfo Info() const {
    OpenInfo info;
    info.handle = this->res.filehandle;
    info.owner = this->args.owner;
    if constexpr (Args::kProc == wire::Proc::kOpenExecute) {
      info.share_access = wire::kShareRead;
      info.executes = true;
    } else {
      info.share_access = this->args.share_access & wire::kShareBoth;
      info.share_deny = this->args.share_deny;
    }
    info.who = who_;
    return info;
  }

  Client& client_;
  const Identity& who_;
};

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

// OPEN_OWNER. Its reply gets the open's permanent name.
class OpenOwnerCall : public Call<wire::OpenOwnerArgs> {
 public:
  OpenOwnerCall(Opens& opens, const OpenInfo& info) : opens_(opens), info_(info) {}

  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = Call<wire::OpenOwnerArgs>::Decode(message, order, answer);
    if (status.ok() && answer == wire::DafsStatus::kOk) {
      res.state_id = opens_.Add(info_, res.state_id, xid.client_id);
    }
    return status;
  }

 private:
  Opens& opens_;
  const OpenInfo& info_;
};

bool WasCreated(const OpenRequest& request, const wire::OpenRes& res) {
  if (!request.create) return false;
  if (request.create_mode != wire::CreateMode::kUnchecked) return true;
  return res.change_info.before != res.change_info.after;
}

}  // namespace

Task<absl::StatusOr<OpenFile>> OpenOperations::Open(const Identity& who, const OpenRequest& request,
                                                    Attributes* after) {
  OpenCall<wire::OpenArgs> open(client_, who);
  Call<wire::SetattrInlineArgs> set;
  StatCall stat;
  // The directory's attributes are needed only if OPEN may have created a name in it.
  AfterCall parent(request.directory, request.create ? after : nullptr);
  open.args = ArgsOf(request);
  const bool writes = (request.share_access & wire::kShareWrite) != 0;
  if (delegating_.Wanted() && request.share_deny == wire::kShareDenyNone &&
      !(writes && client_.delegations().HasReadLocks())) {
    open.args.share_access |= wire::kShareWantOpenXorDelegation;
  }
  set.args.obj_attributes = SetAfterOpen(request);
  set.chf_fh = true;
  set.chf_state_id = set.args.obj_attributes.has(wire::kFattrObjectSize);  // 6.5.35
  CallBase* const members[] = {&open, &set, &stat, &parent};
  CallBase* const without_set[] = {&open, &stat, &parent};
  std::span<CallBase* const> chain(without_set);
  if (set.args.obj_attributes.valid != 0) chain = members;
  Task<absl::Status> task = RunOpen(who, open, parent.In(chain), "open", parent.count());
  CO_RETURN_IF_ERROR(co_await task);
  const bool granted = open.res.delegation_type != wire::OpenDelegationType::kNone;
  if (granted && !open.in_place_of_open()) {
    // A server must grant none without a Back-control Channel (3.2.6.3).
    if (!std::exchange(said_delegation_, true)) {
      LogWarning(absl::StrCat(client_.options().server_name,
                              ": the server grants delegations without a channel to recall them; "
                              "they are ignored"));
    }
  }
  parent.Put();
  OpenFile file;
  file.handle = open.res.filehandle;
  file.state_id = open.res.state_id;
  file.attributes = stat.Take();
  file.names = PromiseOf(open, wire::kSpcondNames);
  if (open.in_place_of_open()) {
    if (granted) {
      Settle(file, ((open.spec_cond | stat.spec_cond) & wire::kSpcondOnlyClients) != 0);
    } else if (writes) {
      client_.delegations().Doubt(file.handle);
    }
    delegating_.ReturnDue();
  }
  if (request.truncate && client_.uncommitted().Holds(file.handle)) {
    // The committer may have rewritten kept data after the OPEN. Truncates again, which excludes
    // that.
    const wire::StateId state_id = writes ? file.state_id : wire::StateId();
    wire::FileAttributes empty;
    empty.object_size = 0;
    empty.set(wire::kFattrObjectSize);
    Task<absl::StatusOr<Attributes>> cutting =
        attributes_.SetAttributes(who, file.handle, state_id, empty);
    absl::StatusOr<Attributes> cut = co_await cutting;
    if (!cut.ok()) {
      Task<absl::Status> closing = Close(file.state_id);
      absl::Status ignored = co_await closing;
      co_return cut.status();
    }
    file.attributes = *std::move(cut);
  }
  file.created = WasCreated(request, open.res);
  co_return file;
}

// RunAll of a chain that begins with `open`. Closes what it opened if a later member fails.
Task<absl::Status> OpenOperations::RunOpen(const Identity& who, const Call<wire::OpenArgs>& open,
                                           std::span<CallBase* const> chain, std::string_view what,
                                           size_t extra) {
  Task<absl::Status> task = RunAll(&who, chain, what, extra);
  absl::Status status = co_await task;
  if (!status.ok() && open.ok()) {
    Task<absl::Status> closing = Close(open.res.state_id);
    absl::Status ignored = co_await closing;
  }
  co_return status;
}

// Opens by one of the procedures that take a file handle. NOTSUPP sets `unknown`. If it is set, the
// OpenFile returned has no state.
template <class Args>
Task<absl::StatusOr<OpenFile>> OpenOperations::OpenByCall(const Identity& who, Call<Args>& open,
                                                          std::atomic<bool>& unknown) {
  OpenFile file;
  file.handle = open.args.filehandle;
  if (unknown.load(std::memory_order_relaxed)) co_return file;
  StatCall stat;
  CallBase* const chain[] = {&open, &stat};
  Task<absl::Status> task = Run(&who, chain);
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

std::optional<OpenFile> OpenOperations::OpenLocally(const Identity& who,
                                                    const wire::FileHandle& file,
                                                    uint32_t share_access, std::string_view owner) {
  return OpenUnder(who, file, share_access, owner, true);
}

std::optional<OpenFile> OpenOperations::OpenUnder(const Identity& who, const wire::FileHandle& file,
                                                  uint32_t share_access, std::string_view owner,
                                                  bool exact) {
  if (!client_.options().delegations) return std::nullopt;
  OpenInfo info;
  info.handle = file;
  info.owner = owner;
  info.share_access = share_access;
  info.who = who;
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

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenDelegated(const Identity& who,
                                                             const wire::FileHandle& handle,
                                                             uint32_t share_access,
                                                             std::string_view owner,
                                                             Delegations::Plan plan) {
  OpenCall<wire::OpenDelegatedArgs> open(client_, who);
  StatCall stat;
  open.args.filehandle = handle;
  open.args.share_access = share_access | wire::kShareWantOpenXorDelegation;
  open.args.owner = owner;
  open.args.want = (share_access & wire::kShareWrite) != 0 ? wire::OpenDelegationType::kWrite
                                                           : wire::OpenDelegationType::kRead;
  CallBase* const chain[] = {&open, &stat};
  Task<absl::Status> task =
      delegating_.RunReturning(std::move(plan.give_back), &who, chain, "open by handle");
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

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenByHandle(const Identity& who,
                                                            const wire::FileHandle& handle,
                                                            uint32_t share_access,
                                                            std::string_view owner) {
  if (std::optional<OpenFile> local = OpenUnder(who, handle, share_access, owner, false)) {
    Task<absl::StatusOr<Attributes>> getting = attributes_.GetAttributes(who, handle);
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
    Delegations::Plan plan = client_.delegations().PlanOpen(handle, who, share_access);
    if (plan.delegated) {
      Task<absl::StatusOr<OpenFile>> asking =
          OpenDelegated(who, handle, share_access, owner, std::move(plan));
      absl::StatusOr<OpenFile> opened = co_await asking;
      co_return opened;
    }
  }
  OpenCall<wire::OpenHandleArgs> open(client_, who);
  open.args.filehandle = handle;
  open.args.share_access = share_access;
  open.args.owner = owner;
  Task<absl::StatusOr<OpenFile>> opening = OpenByCall(who, open, client_.limits().no_open_handle);
  absl::StatusOr<OpenFile> file = co_await opening;
  if (!file.ok() || !file->state_id.is_zero()) co_return file;
  // WIRE R64: the zero state id is "no state", accepted by READ and WRITE.
  Task<absl::StatusOr<Attributes>> getting = attributes_.GetAttributes(who, handle);
  absl::StatusOr<Attributes> attributes = co_await getting;
  if (!attributes.ok()) co_return attributes.status();
  file->attributes = *std::move(attributes);
  co_return file;
}

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenForExecution(const Identity& who,
                                                                const wire::FileHandle& handle,
                                                                std::string_view owner) {
  OpenCall<wire::OpenExecuteArgs> open(client_, who);
  open.args.filehandle = handle;
  open.args.owner = owner;
  Task<absl::StatusOr<OpenFile>> opening = OpenByCall(who, open, client_.limits().no_open_execute);
  absl::StatusOr<OpenFile> file = co_await opening;
  if (!file.ok() || !file->state_id.is_zero()) co_return file;
  Task<absl::StatusOr<OpenFile>> reading = OpenByHandle(who, handle, wire::kShareRead, owner);
  file = co_await reading;
  co_return file;
}

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenUnlinked(const Identity& who,
                                                            const OpenRequest& request) {
  OpenCall<wire::OpenArgs> open(client_, who);
  StatCall stat;
  open.args.claim_type = wire::OpenClaimType::kCreateUnlinked;
  open.args.claim_handle() = request.directory;
  open.args.open_type = wire::OpenType::kCreate;
  open.args.createmode = wire::CreateMode::kUnchecked;
  open.args.createattrs = request.attributes;
  open.args.owner = request.owner;
  open.args.share_access = request.share_access;
  if (delegating_.Wanted() && request.share_deny == wire::kShareDenyNone) {
    open.args.share_access |= wire::kShareWantOpenXorDelegation;
  }
  open.args.share_deny = request.share_deny;
  CallBase* const chain[] = {&open, &stat};
  Task<absl::Status> task = RunOpen(who, open, chain, "open unlinked");
  CO_RETURN_IF_ERROR(co_await task);
  OpenFile file;
  file.handle = open.res.filehandle;
  file.state_id = open.res.state_id;
  file.attributes = stat.Take();
  file.created = true;
  if (open.res.delegation_type != wire::OpenDelegationType::kNone) {
    Settle(file, ((open.spec_cond | stat.spec_cond) & wire::kSpcondOnlyClients) != 0);
  }
  delegating_.ReturnDue();
  co_return file;
}

Task<absl::StatusOr<wire::StateId>> OpenOperations::OpenForOwner(const wire::StateId& open,
                                                                 uint32_t share_access,
                                                                 std::string_view owner,
                                                                 const wire::StateId& extended) {
  std::atomic<bool>& unknown = client_.limits().no_open_owner;
  if (unknown.load(std::memory_order_relaxed)) {
    co_return absl::UnimplementedError("open for a lock owner: the server lacks the procedure");
  }
  const std::shared_ptr<const OpenInfo> lender = client_.opens().InfoOf(open);
  if (lender == nullptr) co_return absl::AbortedError("open for a lock owner: the file was closed");
  OpenInfo info;
  info.handle = lender->handle;
  info.owner = owner;
  info.share_access = share_access;
  info.who = lender->who;
  if (extended.is_zero()) {
    if (auto local = client_.delegations().OpenForOwner(open, info)) co_return *local;
  } else {
    Task<absl::Status> opening = delegating_.MakeReal(extended);
    CO_RETURN_IF_ERROR(co_await opening);
  }
  OpenOwnerCall call(client_.opens(), info);
  call.args.filehandle = info.handle;
  call.args.state_id = open;
  call.args.owner = owner;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&info.who, chain, "open for a lock owner");
  absl::Status status = co_await task;
  if (absl::IsUnimplemented(status)) unknown.store(true, std::memory_order_relaxed);
  if (!status.ok()) co_return status;
  co_return call.res.state_id;
}

Task<absl::Status> OpenOperations::Downgrade(const wire::StateId& open, uint32_t share_access,
                                             uint32_t share_deny) {
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
  if (info == nullptr) co_return absl::AbortedError("open downgrade: the file was closed");
  Task<absl::Status> opening = delegating_.MakeReal(open);
  CO_RETURN_IF_ERROR(co_await opening);
  Call<wire::OpenDowngradeArgs> call;
  call.args.filehandle = info->handle;
  call.args.state_id = open;
  call.args.share_access = share_access;
  call.args.share_deny = share_deny;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&info->who, chain, "open downgrade");
  absl::Status status = co_await task;
  if (status.ok()) client_.opens().Downgraded(open, share_access, share_deny);
  co_return status;
}

bool OpenOperations::IsOpen(const wire::StateId& open) const {
  std::optional<Opens::Entry> entry = client_.opens().Find(open);
  return entry.has_value() && entry->lost.ok() && !entry->closing;
}

std::shared_ptr<const OpenInfo> OpenOperations::InfoOf(const wire::StateId& open) const {
  return client_.opens().InfoOf(open);
}

Task<void> OpenOperations::CloseLocal(Delegations::Closing closing, bool can_wait) {
  using What = Delegations::Closing::What;
  if (closing.what == What::kDowngrade) {
    Task<void> task = delegating_.Downgrade(std::move(closing.delegation), can_wait);
    co_await task;
  } else if (closing.what == What::kReturn) {
    Task<void> task = delegating_.Return(std::move(closing.delegation), can_wait);
    co_await task;
  }
  delegating_.ReturnDue();
}

Task<absl::Status> OpenOperations::Close(const wire::StateId& open, bool can_wait) {
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
  if (info == nullptr) co_return absl::OkStatus();
  Delegations::Closing closing = client_.delegations().Close(open);
  if (closing.what != Delegations::Closing::What::kNotLocal) {
    Task<void> ending = CloseLocal(std::move(closing), can_wait);
    co_await ending;
    co_return absl::OkStatus();
  }
  if (!client_.locks().HeldBy(info->handle, open).empty()) {
    Task<void> releasing = locks_.ReleaseBeforeClose(info->who, info->handle, open);
    co_await releasing;
  }
  client_.opens().Closing(open);
  Call<wire::CloseArgs> call;
  call.can_wait = can_wait;
  call.args.filehandle = info->handle;
  call.args.state_id = open;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = Run(&info->who, chain);
  absl::Status status = co_await task;
  // Removed whatever the outcome: nothing uses it any more. A lost open counts as closed.
  std::optional<Opens::Entry> entry = client_.opens().Remove(open);
  if (!entry.has_value() || !entry->lost.ok()) co_return absl::OkStatus();
  CO_RETURN_IF_ERROR(status);
  switch (call.status) {
    case wire::DafsStatus::kBadStateId:
    case wire::DafsStatus::kExpired:
    case wire::DafsStatus::kStaleStateId:
    case wire::DafsStatus::kOldStateId:
      // The open is already gone: an earlier CLOSE was executed and its reply lost, or the server
      // lost its state.
      co_return absl::OkStatus();
    default:
      if (!call.ok()) co_return StatusOf(call, "close");
      co_return absl::OkStatus();
  }
}

}  // namespace dafs::client
