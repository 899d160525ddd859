#include "server/admin/commands.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/log.h"
#include "runtime/log_level.h"
#include "runtime/loop.h"
#include "server/clients/client_name.h"
#include "server/clients/client_table.h"
#include "server/session/pool.h"
#include "server/session/worker.h"
#include "server/store/store.h"

namespace dafs::server {
namespace {

absl::StatusOr<std::string> SetLevel(const AdminView&, const std::string& argument) {
  return ChangeLogLevel(argument);
}

// Ends the sessions of a client and releases what it holds. If its program still runs, it connects
// again, as after the end of its lease.
absl::StatusOr<std::string> Evict(const AdminView& view, const std::string& argument) {
  std::vector<std::shared_ptr<Client>> found;
  for (const ClientTable::Entry& entry : view.shared.clients->List(Loop::Now())) {
    const Client& client = *entry.client;
    const std::string id = absl::StrFormat("%016x", wire::OpaqueToUint64(client.client_id()));
    if (argument == id || argument == ClientName(client.client_id_string())) {
      found.push_back(entry.client);
    }
  }
  if (found.size() != 1) {
    return absl::NotFoundError(absl::StrCat("evict ", argument, ": ",
                                            found.empty() ? "no client" : "several clients",
                                            " with this id or name; see dafsctl server clients"));
  }
  Client& client = *found.front();
  const std::string said = absl::StrCat("client ", ClientName(client.client_id_string()),
                                        " evicted: it held ", client.holdings()->opens.load(),
                                        " opens and ", client.holdings()->locks.load(), " locks");
  LogNotice(said);
  for (const auto& worker : *view.shared.workers) {
    worker->EndSessionsOf(client.client_id(), absl::AbortedError("evicted by the administrator"));
  }
  view.shared.chores->Submit(
      [store = view.shared.store, id = client.client_id()] { store->ExpireClient(id); });
  return absl::StrCat(said, "\n");
}

constexpr AdminCommand kCommands[] = {{"log", SetLevel}, {"evict", Evict}};

}  // namespace

const AdminCommand* FindAdminCommand(std::string_view word) {
  for (const AdminCommand& command : kCommands) {
    if (command.word == word) return &command;
  }
  return nullptr;
}

}  // namespace dafs::server
