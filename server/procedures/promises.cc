// PROMISES, private (R15). Spec: WIRE 9.6, wire/messages/promises.h.
#include "server/procedures/handler.h"
#include "server/session/directives/callbacks.h"
#include "server/session/directives/lock_announcer.h"
#include "server/session/directives/recalls.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

DafsStatus AdmitToPromises(Call& call, const wire::PromisesArgs& args, wire::PromisesRes* res) {
  Session& session = call.session();
  Session* const channel = session.channels().back();
  if (channel == nullptr) return DafsStatus::kInval;
  const BackControl& back_control = *channel->channels().back_control();
  if (back_control.request_bytes() < Callbacks::kLeastRequestBytes) return DafsStatus::kInval;
  Callbacks& callbacks = *session.shared().callbacks;
  if (!session.identity().trusted()) return DafsStatus::kOk;
  Client& client = session.identity().client();
  res->recall_ms = static_cast<uint32_t>(absl::ToInt64Milliseconds(callbacks.recall_time()));
  res->granted = callbacks.Admit(client, args.most, back_control.route());
  session.shared().lock_announcer->Bind(client.client_id(), back_control.route());
  session.shared().recalls->Resend(client.client_id());
  return DafsStatus::kOk;
}

}  // namespace

constexpr Procedure kPromisesHandler = kAtOnce<AdmitToPromises>;

}  // namespace dafs::server
