#include "client/files/opens/opening.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/files/opens/delegating.h"
#include "client/files/opens/locking.h"
#include "client/files/opens/open_call.h"
#include "client/files/shared/attributes.h"
#include "client/recovery/calls/operation.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

// Sets the accesses that the open denies to others.
void Reserve(const OpenRequest& request, wire::OpenArgs& args) {
  args.share_deny = request.share_deny;
  if (request.deny_delete) args.delete_disp = wire::OpenDeleteDisp::kDeny;
  if (!request.share_key.has_value()) return;
  args.share_key_type = wire::ShareKeyType::kBoth;
  args.share_key = *request.share_key;
}

wire::OpenArgs ArgsOf(const OpenRequest& request) {
  wire::OpenArgs args;
  args.claim_type = wire::OpenClaimType::kNull;
  args.dir_handle = request.directory;
  args.pathname.push_back(request.name);
  args.owner = request.owner;
  args.share_access = request.share_access;
  Reserve(request, args);
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

// A delegation beside an open that did not want one: promises had ended, for example because this
// process has just continued a mount. It is due, as one of an earlier process: otherwise nothing
// would return it, and the server would keep the file after its last name is removed.
void GiveBackUnwanted(Client& client, const Identity& user, const OpenCall<wire::OpenArgs>& open) {
  client.delegations().Restore(
      {.file = open.res.filehandle,
       .state_id = open.res.delegation_state_id,
       .client_id = open.xid.client_id,
       .user = user,
       .was_write = open.res.delegation_type == wire::OpenDelegationType::kWrite,
       .opens = {}});
}

}  // namespace

Task<absl::StatusOr<OpenFile>> OpenOperations::Open(const Identity& user,
                                                    const OpenRequest& request, Attributes* after) {
  OpenCall<wire::OpenArgs> open(client_, user);
  Call<wire::SetattrInlineArgs> set;
  StatCall stat;
  // The directory's attributes are needed only if OPEN may have created a name in it.
  AfterCall parent(request.directory, request.create ? after : nullptr);
  open.args = ArgsOf(request);
  const bool writes = (request.share_access & wire::kShareWrite) != 0;
  if (delegating_.Wanted() && !request.Reserves() &&
      !(writes && client_.delegations().locks().HasReadLocks())) {
    open.args.share_access |= wire::kShareWantOpenXorDelegation;
  }
  set.args.obj_attributes = SetAfterOpen(request);
  set.chf_fh = true;
  set.chf_state_id = set.args.obj_attributes.has(wire::kFattrObjectSize);  // 6.5.35
  CallBase* const members[] = {&open, &set, &stat, &parent};
  CallBase* const without_set[] = {&open, &stat, &parent};
  std::span<CallBase* const> chain(without_set);
  if (set.args.obj_attributes.valid != 0) chain = members;
  Task<absl::Status> task = RunOpen(user, open, parent.In(chain), "open", parent.count());
  CO_RETURN_IF_ERROR(co_await task);
  parent.Put();
  client_.failover().Saw(open.res.filehandle);
  OpenFile file;
  file.handle = open.res.filehandle;
  file.state_id = open.res.state_id;
  file.attributes = stat.Take();
  file.names = PromiseOf(open, wire::kSpcondNames);
  TakeDelegation(open, stat, user, file);
  if (request.truncate && client_.uncommitted().Holds(file.handle)) {
    Task<absl::Status> truncating = TruncateAgain(user, writes, file);
    CO_RETURN_IF_ERROR(co_await truncating);
  }
  file.created = WasCreated(request, open.res);
  co_return file;
}

// Handles the delegation that `open`, an OPEN by name, got or did not get. `stat`: its GETATTR.
void OpenOperations::TakeDelegation(const OpenCall<wire::OpenArgs>& open, const StatCall& stat,
                                    const Identity& user, OpenFile& file) {
  const bool granted = open.res.delegation_type != wire::OpenDelegationType::kNone;
  if (open.in_place_of_open()) {
    if (granted) {
      Settle(file, ((open.spec_cond | stat.spec_cond) & wire::kSpcondOnlyClients) != 0);
    } else if ((open.args.share_access & wire::kShareWrite) != 0) {
      client_.delegations().Doubt(file.handle);
    }
  } else if (granted) {
    // A server must grant none without a Back-control Channel (3.2.6.3). With one, promises have
    // ended just now, and the server is about to be notified.
    if (!client_.promises().offered() && !std::exchange(said_delegation_, true)) {
      LogWarning(absl::StrCat(client_.options().server_name,
                              ": the server grants delegations without a channel to recall them; "
                              "they are returned"));
    }
    GiveBackUnwanted(client_, user, open);
  }
  if (granted || open.in_place_of_open()) delegating_.ReturnDue();
}

// The committer may have rewritten kept data after the OPEN. Truncates again, which excludes that.
// Closes the file if that fails.
Task<absl::Status> OpenOperations::TruncateAgain(const Identity& user, bool writes,
                                                 OpenFile& file) {
  const wire::StateId state_id = writes ? file.state_id : wire::StateId();
  wire::FileAttributes empty;
  empty.object_size = 0;
  empty.set(wire::kFattrObjectSize);
  Task<absl::StatusOr<Attributes>> cutting =
      attributes_.SetAttributes(user, file.handle, state_id, empty);
  absl::StatusOr<Attributes> cut = co_await cutting;
  if (!cut.ok()) {
    Task<absl::Status> closing = Close(file.state_id);
    absl::Status ignored = co_await closing;
    co_return cut.status();
  }
  file.attributes = *std::move(cut);
  co_return absl::OkStatus();
}

// RunAll of a chain that begins with `open`. Closes what it opened if a later member fails.
Task<absl::Status> OpenOperations::RunOpen(const Identity& user, const Call<wire::OpenArgs>& open,
                                           std::span<CallBase* const> chain, std::string_view what,
                                           size_t extra) {
  Task<absl::Status> task = RunAll(&user, chain, what, extra);
  absl::Status status = co_await task;
  if (!status.ok() && open.ok()) {
    Task<absl::Status> closing = Close(open.res.state_id);
    absl::Status ignored = co_await closing;
  }
  co_return status;
}

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenUnlinked(const Identity& user,
                                                            const OpenRequest& request) {
  OpenCall<wire::OpenArgs> open(client_, user);
  StatCall stat;
  open.args.claim_type = wire::OpenClaimType::kCreateUnlinked;
  open.args.claim_handle() = request.directory;
  open.args.open_type = wire::OpenType::kCreate;
  open.args.createmode = wire::CreateMode::kUnchecked;
  open.args.createattrs = request.attributes;
  open.args.owner = request.owner;
  open.args.share_access = request.share_access;
  if (delegating_.Wanted() && !request.Reserves()) {
    open.args.share_access |= wire::kShareWantOpenXorDelegation;
  }
  Reserve(request, open.args);
  CallBase* const chain[] = {&open, &stat};
  Task<absl::Status> task = RunOpen(user, open, chain, "open unlinked");
  CO_RETURN_IF_ERROR(co_await task);
  OpenFile file;
  file.handle = open.res.filehandle;
  file.state_id = open.res.state_id;
  file.attributes = stat.Take();
  file.created = true;
  if (open.res.delegation_type != wire::OpenDelegationType::kNone) {
    if (!open.in_place_of_open()) GiveBackUnwanted(client_, user, open);
    Settle(file, ((open.spec_cond | stat.spec_cond) & wire::kSpcondOnlyClients) != 0);
  }
  delegating_.ReturnDue();
  co_return file;
}

Task<absl::StatusOr<wire::StateId>> OpenOperations::OpenForOwner(const wire::StateId& open,
                                                                 uint32_t share_access,
                                                                 std::string_view owner,
                                                                 wire::StateId extended) {
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
  info.user = lender->user;
  if (extended.is_zero()) {
    if (auto local = client_.delegations().locks().OpenForOwner(open, info)) co_return *local;
  } else {
    Task<absl::Status> opening = delegating_.MakeReal(extended);
    CO_RETURN_IF_ERROR(co_await opening);
  }
  OpenOwnerCall call(client_.opens(), info);
  call.args.filehandle = info.handle;
  call.args.state_id = open;
  call.args.owner = owner;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&info.user, chain, "open for a lock owner");
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
  if (info->share_key.has_value()) {
    call.args.share_key_type = wire::ShareKeyType::kBoth;
    call.args.share_key = *info->share_key;
  }
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = RunAll(&info->user, chain, "open downgrade");
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
    Task<void> releasing = locks_.ReleaseBeforeClose(info->user, info->handle, open);
    co_await releasing;
  }
  client_.opens().Closing(open);
  Call<wire::CloseArgs> call;
  call.can_wait = can_wait;
  call.args.filehandle = info->handle;
  call.args.state_id = open;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = Run(&info->user, chain);
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

Task<void> OpenOperations::EndEarlier(wire::StateId earlier, wire::StateId again) {
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(earlier);
  if (earlier == again || info == nullptr) co_return;
  const std::optional<Opens::Entry> entry = client_.opens().Find(again);
  if (entry.has_value() && !entry->is_local && entry->info->handle == info->handle) {
    // `earlier` may be about to become an open of the server. It has the same owner as `again`, so
    // the server then returns the same open for both.
    Task<absl::Status> opening = delegating_.MakeReal(earlier);
    absl::Status ignored = co_await opening;
    client_.opens().Merge(earlier, again);
    co_return;
  }
  Task<absl::Status> closing = Close(earlier);
  absl::Status ignored = co_await closing;
}

}  // namespace dafs::client
