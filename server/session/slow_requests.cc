#include "server/session/slow_requests.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"
#include "runtime/size_text.h"
#include "runtime/text.h"
#include "server/clients/client_name.h"
#include "server/session/own_pool.h"
#include "server/session/request.h"
#include "server/session/session.h"
#include "server/session/worker.h"
#include "server/store/objects/handle.h"
#include "server/store/parts/inventory.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {
namespace {

std::string NameOf(Store& store, const Request& request) {
  const wire::FileHandle file = FileOf(request);
  if (file == wire::FileHandle()) return "";
  const std::string path = store.inventory().NameOf(KeyOf(file)).path;
  return absl::StrCat(" of ", path.empty() ? "a file without a known name" : path);
}

}  // namespace

void NoteSlowRequest(Session& session, const Request& request, absl::Duration took) {
  ++session.worker().counts().slow_operations;
  LogBudget& budget = session.worker().slow_log();
  if (!budget.Admits(Loop::Now())) return;
  const std::string client = session.identity().known()
                                 ? ClientName(session.identity().client_id_string())
                                 : session.connection().peer_name();
  LogWarning(absl::StrCat(
      "slow: ", Text(wire::Name(request.header().procedure)), NameOf(session.store(), request),
      " by client ", client, " (uid ", request.caller.uid, ") took ", MillisecondsText(took), ": ",
      MillisecondsText(request.queued), " queued, ", MillisecondsText(took - request.queued),
      " executed", budget.TakeLeftOut()));
}

}  // namespace dafs::server
