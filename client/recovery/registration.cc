#include "client/recovery/registration.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/exchange/call.h"
#include "client/recovery/calls/operation.h"
#include "client/recovery/calls/server_delay.h"
#include "client/session/session.h"
#include "client/session/session_keeper.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs::client {

using wire::DafsStatus;

namespace {

constexpr int kMostTries = 8;

wire::RegisterCredArgs ArgsFor(const Identity& user) {
  wire::RegisterCredArgs args;
  args.cred_type = wire::CredType::kId;
  args.uid = static_cast<int32_t>(user.uid);
  args.gid = static_cast<int32_t>(user.gid);
  for (uint32_t group : user.groups) args.groups.push_back(static_cast<int32_t>(group));
  return args;
}

}  // namespace

// A worker registers one at a time, so that many requests of a new user register it once.
Task<absl::Status> Registration::Register(const Identity& user, absl::Time deadline) {
  if (busy_) {
    // The running registration may be for the same identity: the caller looks the handle up again.
    absl::Status turn = co_await turn_.Wait(deadline);
    co_return turn;
  }
  busy_ = true;
  Task<absl::Status> task = RegisterNow(user, deadline);
  absl::Status status = co_await task;
  busy_ = false;
  turn_.WakeAll(absl::OkStatus());
  co_return status;
}

Task<absl::Status> Registration::RegisterNow(const Identity& user, absl::Time deadline) {
  Call<wire::RegisterCredArgs> call;
  call.args = ArgsFor(user);
  CallBase* const chain[] = {&call};
  DoublingPause delay = ServerDelay();
  for (int tries = 0;; ++tries) {
    Session* session = session_keeper_.session();
    if (session == nullptr) co_return absl::OkStatus();
    const Room room{session->negotiated().client_id,
                    std::max(session->negotiated().max_credentials, 1u)};
    Task<absl::Status> exchange = session->Run(wire::CredHandle(), chain, deadline);
    absl::Status status = co_await exchange;
    if (absl::IsUnavailable(status) && tries < kMostTries) {
      if (session_keeper_.session() == nullptr) co_return absl::OkStatus();
      continue;  // only the response was damaged
    }
    CO_RETURN_IF_ERROR(status);
    if (call.ok()) {
      Task<void> storing = Store(user, call.res.cred_handle, room, deadline);
      co_await storing;
      co_return absl::OkStatus();
    }
    if (call.status == DafsStatus::kResource && tries < kMostTries) {
      // Handles of another session of this client, perhaps an earlier one, fill the server's table.
      if (auto oldest = client_.credentials().TakeOldest()) {
        Task<void> release = Release(*oldest, deadline);
        co_await release;
        continue;
      }
    }
    if (call.status == DafsStatus::kNotSupp || call.status == DafsStatus::kNotAuthorized) {
      UseOwnCredential(user, room, call.status);
      co_return absl::OkStatus();
    }
    if (call.status != DafsStatus::kDelay && call.status != DafsStatus::kGrace) {
      co_return StatusOf(call, absl::StrCat("register credentials of user ", user.uid));
    }
    Task<absl::Status> pause = session_keeper_.Pause(delay.next());
    CO_RETURN_IF_ERROR(co_await pause);
    delay.Grow();
    if (Loop::Now() > deadline) {
      co_return absl::DeadlineExceededError("register credentials: the server asks to wait");
    }
  }
}

// Stores the handle, and releases those that it displaces.
Task<void> Registration::Store(const Identity& user, const wire::CredHandle& handle, Room room,
                               absl::Time deadline) {
  const std::vector<wire::CredHandle> useless =
      client_.credentials().Insert(room.client_id, user, handle, room.most);
  for (const wire::CredHandle& displaced : useless) {
    Task<void> release = Release(displaced, deadline);
    co_await release;
  }
}

// 6.2.8: the server rejects this kind of credential, or this user. The session's own credential is
// used instead, as for all users of an untrusted client (3.1.1.1.2).
void Registration::UseOwnCredential(const Identity& user, Room room, DafsStatus refused) {
  LogWarning(absl::StrCat(
      session_keeper_.name(), ": the server does not let this machine act as user ", user.uid, " (",
      Text(wire::Name(refused)), "); the server chooses the rights of this user's requests"));
  client_.credentials().Insert(room.client_id, user, wire::CredHandle(), room.most);
}

// The result is ignored: the server drops the handles with the client.
Task<void> Registration::Release(const wire::CredHandle& handle, absl::Time deadline) {
  Session* session = session_keeper_.session();
  if (session == nullptr || handle.is_zero()) co_return;
  Call<wire::ReleaseCredArgs> call;
  call.args.cred_handle = handle;
  CallBase* const chain[] = {&call};
  Task<absl::Status> task = session->Run(wire::CredHandle(), chain, deadline);
  absl::Status ignored = co_await task;
}

}  // namespace dafs::client
