#include "client/files/opening.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/files/attributes.h"
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

// OPEN, OPEN_HANDLE or OPEN_EXECUTE. Decode gives the open its permanent name and stores it in
// `res`, so that later members of the chain and later operations use that name.
template <class Args>
class OpenCall : public Call<Args> {
 public:
  OpenCall(Opens& opens, const Identity& who) : opens_(opens), who_(who) {}

  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    absl::Status status = Call<Args>::Decode(message, order, answer);
    if (!status.ok() || answer != wire::DafsStatus::kOk || this->res.state_id.is_zero()) {
      return status;
    }
    OpenInfo info;
    info.handle = this->res.filehandle;
    info.owner = this->args.owner;
    if constexpr (Args::kProc == wire::Proc::kOpenExecute) {
      info.share_access = wire::kShareRead;
      info.executes = true;
    } else {
      info.share_access = this->args.share_access;
      info.share_deny = this->args.share_deny;
    }
    info.who = who_;
    this->res.state_id = opens_.Add(std::move(info), this->res.state_id, this->xid.client_id);
    return status;
  }

 private:
  Opens& opens_;
  const Identity& who_;
};

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
  OpenCall<wire::OpenArgs> open(client_.opens(), who);
  Call<wire::SetattrInlineArgs> set;
  StatCall stat;
  // The directory's attributes are needed only if OPEN may have created a name in it.
  AfterCall parent(request.directory, request.create ? after : nullptr);
  open.args = ArgsOf(request);
  set.args.obj_attributes = SetAfterOpen(request);
  set.chf_fh = true;
  set.chf_state_id = set.args.obj_attributes.has(wire::kFattrObjectSize);  // 6.5.35
  CallBase* const members[] = {&open, &set, &stat, &parent};
  CallBase* const without_set[] = {&open, &stat, &parent};
  std::span<CallBase* const> chain(without_set);
  if (set.args.obj_attributes.valid != 0) chain = members;
  Task<absl::Status> task = RunOpen(who, open, parent.In(chain), "open", parent.count());
  CO_RETURN_IF_ERROR(co_await task);
  if (open.res.delegation_type != wire::OpenDelegationType::kNone) {
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
  if (request.truncate && client_.uncommitted().Holds(file.handle)) {
    // The committer may have rewritten kept data after the OPEN. Truncates again, which excludes
    // that.
    const bool writes = (request.share_access & wire::kShareWrite) != 0;
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

Task<absl::StatusOr<OpenFile>> OpenOperations::OpenByHandle(const Identity& who,
                                                            const wire::FileHandle& handle,
                                                            uint32_t share_access,
                                                            std::string_view owner) {
  OpenCall<wire::OpenHandleArgs> open(client_.opens(), who);
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
  OpenCall<wire::OpenExecuteArgs> open(client_.opens(), who);
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
  OpenCall<wire::OpenArgs> open(client_.opens(), who);
  StatCall stat;
  open.args.claim_type = wire::OpenClaimType::kCreateUnlinked;
  open.args.claim_handle() = request.directory;
  open.args.open_type = wire::OpenType::kCreate;
  open.args.createmode = wire::CreateMode::kUnchecked;
  open.args.createattrs = request.attributes;
  open.args.owner = request.owner;
  open.args.share_access = request.share_access;
  open.args.share_deny = request.share_deny;
  CallBase* const chain[] = {&open, &stat};
  Task<absl::Status> task = RunOpen(who, open, chain, "open unlinked");
  CO_RETURN_IF_ERROR(co_await task);
  OpenFile file;
  file.handle = open.res.filehandle;
  file.state_id = open.res.state_id;
  file.attributes = stat.Take();
  file.created = true;
  co_return file;
}

Task<absl::StatusOr<wire::StateId>> OpenOperations::OpenForOwner(const wire::StateId& open,
                                                                 uint32_t share_access,
                                                                 std::string_view owner) {
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

Task<absl::Status> OpenOperations::Close(const wire::StateId& open, bool can_wait) {
  const std::shared_ptr<const OpenInfo> info = client_.opens().InfoOf(open);
  if (info == nullptr) co_return absl::OkStatus();
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
