#include "server/admin/commands.h"

#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/log/log.h"
#include "runtime/log/log_level.h"
#include "runtime/loop/loop.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"
#include "server/admin/report_names.h"
#include "server/admin/report_text.h"
#include "server/admin/reports.h"
#include "server/clients/client_name.h"
#include "server/clients/client_table.h"
#include "server/session/own_pool.h"
#include "server/session/shared/pool.h"
#include "server/session/worker.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/objects/failover_location.h"
#include "server/store/parts/releases.h"
#include "server/store/parts/rollbacks.h"
#include "server/store/store.h"

namespace dafs::server {
namespace {

absl::StatusOr<std::string> SetLevel(const AdminView&, const std::string& argument,
                                     std::string_view) {
  return ChangeLogLevel(argument);
}

// Ends the sessions of a client and releases what it holds. If its program still runs, it connects
// again, as after the end of its lease.
absl::StatusOr<std::string> Evict(const AdminView& view, const std::string& argument,
                                  std::string_view) {
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
      [store = view.shared.store, id = client.client_id()] { store->releases().ExpireClient(id); });
  return absl::StrCat(said, "\n");
}

// Releases locks of a file by ending the opens of their owners. `argument`: ID or all, then the
// file as `locks` shows it: its path or its handle.
absl::StatusOr<std::string> Unlock(const AdminView& view, const std::string& argument,
                                   std::string_view by) {
  const size_t space = argument.find(' ');
  // An empty name would stand for all files without a known path.
  if (space == argument.npos || space + 1 == argument.size()) {
    return absl::InvalidArgumentError("unlock: give ID or all, and FILE");
  }
  const std::string id = argument.substr(0, space), file = argument.substr(space + 1);
  ReportNames names(view);
  size_t locks = 0, owners = 0;
  for (const ObjectKey& key : names.inventory().LockedFiles()) {
    if (names.Of(key).path != file && Hex(key) != file) continue;
    std::set<std::pair<wire::ClientId, std::string>> chosen;
    for (const Inventory::Lock& lock : names.inventory().LocksOn(key, kMostRows)) {
      if (lock.waits || (id != "all" && id != LockOwnerId(lock.client_id, lock.owner))) continue;
      ++locks;
      chosen.emplace(lock.client_id, lock.owner);
    }
    owners += chosen.size();
    for (const auto& [client_id, owner] : chosen) {
      const auto client = names.clients().find(client_id);
      LogNotice(absl::StrCat("unlock by ", Text(by), ": the locks of client ",
                             client != names.clients().end() ? client->second : IdText(client_id),
                             ", owner ", LockOwnerId(client_id, owner), ", on ", file,
                             " are released; it loses its open of the file"));
      Pool* const own = OwnPool(view.shared, key.fshandle());  // its file system may hang
      (own != nullptr ? own : view.shared.chores)
          ->Submit([store = view.shared.store, key, id_of_client = client_id, of = owner] {
            store->releases().RevokeOwner(key, id_of_client, of);
          });
    }
  }
  if (locks == 0) {
    return absl::NotFoundError(
        absl::StrCat("unlock: no such lock on ", file, "; see dafsctl server locks"));
  }
  return absl::StrCat(locks, " locks of ", owners, " owners released on ", file, "\n");
}

// Forgets the broken locks of a file that no client repairs, and changes whose undo has failed.
// `argument`: the file, as failed-locks shows it: its path or its handle.
absl::StatusOr<std::string> ForgetLocks(const AdminView& view, const std::string& argument,
                                        std::string_view by) {
  if (argument.empty()) return absl::InvalidArgumentError("forget-locks: give FILE");
  ReportNames names(view);
  PersistentLocks& locks = view.shared.store->persistent_locks();
  for (const ObjectKey& key : locks.Files()) {
    if (names.Of(key).path != argument && Hex(key) != argument) continue;
    size_t given_up = 0, count = 0;
    wire::DafsStatus status = view.shared.store->rollbacks().GiveUp(key, &given_up);
    if (status == wire::DafsStatus::kOk) status = locks.Forget(key, &count);
    if (status == wire::DafsStatus::kDelay) {
      return absl::UnavailableError("forget-locks: the changes are being undone; try again");
    }
    if (status != wire::DafsStatus::kOk) {
      return absl::InternalError(absl::StrCat("forget-locks: ", std::string(wire::Name(status)),
                                              "; the log has the reason"));
    }
    if (count == 0 && given_up == 0) break;
    const std::string said = absl::StrCat(
        count, " broken locks forgotten on ", argument,
        given_up > 0 ? absl::StrCat(", and the undo for ", given_up, " owners given up") : "");
    LogNotice(
        absl::StrCat("forget-locks by ", Text(by), ": ", said, "; the file may be half changed"));
    return absl::StrCat(said, "\n");
  }
  return absl::NotFoundError(absl::StrCat("no broken lock or failed undo on ", argument,
                                          "; see dafsctl server locks --broken"));
}

// Sends the clients to another machine, where the server continues. `end` ends this one: it stops
// as at SIGTERM.
absl::StatusOr<std::string> MoveAway(const AdminView& view, const std::string& to,
                                     std::string_view by) {
  if (!IsServerName(to)) {
    return absl::InvalidArgumentError("drain --to: give HOST or HOST:PORT");
  }
  view.move(to, by);
  return absl::StrCat(DrainText(DrainReport(view)), "\n");
}

absl::StatusOr<std::string> EndAfterDrain(const AdminView& view, const std::string&,
                                          std::string_view by) {
  if (!view.shared.clients->draining_since()) {
    return absl::FailedPreconditionError("end: the server is not draining");
  }
  LogNotice(absl::StrCat("end by ", Text(by), ", after drain"));
  kill(getpid(), SIGTERM);
  return "stopping\n";
}

// No new clients from now on, before maintenance; `undo` ends that.
absl::StatusOr<std::string> Drain(const AdminView& view, const std::string& argument,
                                  std::string_view by) {
  if (argument.starts_with("to ")) return MoveAway(view, argument.substr(3), by);
  if (!argument.empty() && argument != "undo") {
    return absl::InvalidArgumentError("drain takes undo or no argument");
  }
  const bool is_new = view.shared.clients->SetDraining(argument.empty(), Loop::Now());
  const std::string state = DrainText(DrainReport(view));
  if (is_new) LogNotice(absl::StrCat("drain by ", Text(by), ": ", state));
  return absl::StrCat(state, "\n");
}

absl::StatusOr<std::string> Reload(const AdminView& view, const std::string& argument,
                                   std::string_view by) {
  if (!argument.empty()) return absl::InvalidArgumentError("reload takes no argument");
  ASSIGN_OR_RETURN(const std::string said, view.reload(by));
  return absl::StrCat(said, "\n");
}

constexpr AdminCommand kCommands[] = {
    {"log", SetLevel}, {"evict", Evict},   {"unlock", Unlock},    {"forget-locks", ForgetLocks},
    {"drain", Drain},  {"reload", Reload}, {"end", EndAfterDrain}};

}  // namespace

const AdminCommand* FindAdminCommand(std::string_view word) {
  for (const AdminCommand& command : kCommands) {
    if (command.word == word) return &command;
  }
  return nullptr;
}

}  // namespace dafs::server
