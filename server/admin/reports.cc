#include "server/admin/reports.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "runtime/gather.h"
#include "runtime/latency.h"
#include "runtime/log_level.h"
#include "runtime/loop.h"
#include "runtime/text.h"
#include "server/clients/client_name.h"
#include "server/clients/client_table.h"
#include "server/clients/response_cache.h"
#include "server/session/callbacks.h"
#include "server/session/credit.h"
#include "server/session/table.h"
#include "server/session/worker.h"
#include "server/store/holdings/grace.h"
#include "server/store/inventory.h"
#include "server/store/store.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/process_owner.h"
#include "wire/protocol/totals_json.h"

namespace dafs::server {
namespace {

using Json = nlohmann::ordered_json;

struct Sessions {
  absl::flat_hash_map<wire::ClientId, std::vector<SessionReport>> by_client;
  size_t silent_workers = 0;  // did not report in time
};

Sessions CollectSessions(const AdminView& view) {
  const auto gather = std::make_shared<Gather<std::vector<SessionReport>>>();
  for (const auto& worker : *view.shared.workers) {
    gather->Expect();
    worker->CollectReports(
        [gather](std::vector<SessionReport> reports) { gather->Put(std::move(reports)); });
  }
  auto gathered = gather->Await();
  Sessions sessions;
  sessions.silent_workers = gathered.missing;
  for (std::vector<SessionReport>& reports : gathered.reports) {
    for (SessionReport& report : reports) {
      sessions.by_client[report.client_id].push_back(std::move(report));
    }
  }
  return sessions;
}

struct Counts {
  WorkerCounts sum;
  size_t silent_workers = 0;  // did not report in time
};

Counts CollectCounts(const AdminView& view) {
  const auto gather = std::make_shared<Gather<WorkerCounts>>();
  for (const auto& worker : *view.shared.workers) {
    gather->Expect();
    worker->CollectCounts([gather](const WorkerCounts& counts) { gather->Put(counts); });
  }
  const auto gathered = gather->Await();
  Counts counts;
  counts.silent_workers = gathered.missing;
  for (const WorkerCounts& one : gathered.reports) counts.sum.Merge(one);
  return counts;
}

std::string IdText(const wire::ClientId& id) {
  return absl::StrFormat("%016x", wire::OpaqueToUint64(id));
}

std::string Hex(const ObjectKey& key) {
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()});
}

Json PromisesOf(const Shared& shared) {
  const Promises::Counts counts = shared.store->promises().GetCounts();
  const LatencyHistogram answers = shared.callbacks->answers();
  Json json = {{"held", counts.promises},
               {"clients", counts.clients},
               {"calls", counts.calls},
               {"answers", answers.count()}};
  wire::AddTimes(answers, "answer_", json);
  json["clients_voided"] = counts.voided;
  json["refused"] = counts.refused;
  return json;
}

Json DelegationsOf(Store& store) {
  const Delegations::Counts counts = store.delegations().GetCounts();
  return {{"held", counts.held},
          {"recalled", counts.recalls.begun},
          {"revoked", counts.recalls.revoked},
          {"recall_mean_us", absl::ToInt64Microseconds(counts.recalls.mean())},
          {"recall_longest_us", absl::ToInt64Microseconds(counts.recalls.longest)}};
}

Json RecallsOf(Store& store, const wire::ClientId& client_id) {
  const Delegations::RecallTimes recalls = store.delegations().RecallTimesOf(client_id);
  return {{"count", recalls.begun},
          {"revoked", recalls.revoked},
          {"mean_us", absl::ToInt64Microseconds(recalls.mean())},
          {"longest_us", absl::ToInt64Microseconds(recalls.longest)}};
}

Json GraceOf(Store& store) {
  const Grace::State state = store.grace().GetState();
  Json grace = {{"active", state.is_active}};
  if (!state.is_active) return grace;
  const absl::Duration left = std::max(state.until - Loop::Now(), absl::ZeroDuration());
  grace["left_us"] = absl::ToInt64Microseconds(left);
  grace["clients_expected"] = state.expected;
  grace["clients_unknown"] = state.awaits_anyone;
  return grace;
}

// The names of clients and files, found once each.
class Names {
 public:
  explicit Names(const AdminView& view)
      : options_(*view.shared.options), inventory_(view.shared.store->inventory()) {
    for (ClientTable::Entry& entry : view.shared.clients->List(Loop::Now())) {
      clients_[entry.client->client_id()] = ClientName(entry.client->client_id_string());
    }
  }

  const absl::flat_hash_map<wire::ClientId, std::string>& clients() const { return clients_; }
  const Inventory& inventory() const { return inventory_; }

  const Inventory::FileName& Of(const ObjectKey& file) {
    auto [it, is_new] = files_.try_emplace(file);
    if (is_new) it->second = inventory_.NameOf(file);
    return it->second;
  }
  // Whether `file` is `path`, or below it. An empty path accepts all.
  bool IsIn(const ObjectKey& file, std::string_view path) {
    if (path.empty()) return true;
    const std::string& name = Of(file).path;
    return name == path ||
           (absl::StartsWith(name, Text(path)) && (path.back() == '/' || name[path.size()] == '/'));
  }

  // The members that name a file and a client.
  Json Row(const ObjectKey& file, const wire::ClientId& client_id) {
    const Inventory::FileName& name = Of(file);
    const auto client = clients_.find(client_id);
    return {{"file", name.path},
            {"export", name.export_index ? options_.exports[*name.export_index].name : ""},
            {"handle", Hex(file)},
            {"client", client == clients_.end() ? "" : client->second},
            {"client_id", IdText(client_id)}};
  }

 private:
  const ServerOptions& options_;
  Inventory inventory_;
  absl::flat_hash_map<wire::ClientId, std::string> clients_;
  absl::flat_hash_map<ObjectKey, Inventory::FileName> files_;
};

void SortByFile(std::vector<Json>& rows) {
  const auto key = [](const Json& row) {
    return std::pair(row["file"].get_ref<const std::string&>(),
                     row["handle"].get_ref<const std::string&>());
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json& a, const Json& b) { return key(a) < key(b); });
}

const char* AccessWord(uint32_t access) {
  if ((access & wire::kShareWrite) == 0) return "read";
  return (access & wire::kShareRead) == 0 ? "write" : "read-write";
}

// mount.dafs names a process by a number of its own.
std::string OwnerText(const std::string& owner) {
  const std::string_view process = wire::ProcessOf(owner);
  if (process.size() == owner.size()) return absl::CHexEscape(owner);
  uint64_t number = 0;
  std::memcpy(&number, process.data() + wire::kProcessOwner.size(), sizeof(number));
  return absl::StrCat("process ", number);
}

const char* SquashWord(Squash squash) {
  switch (squash) {
    case Squash::kRoot:
      return "root";
    case Squash::kNone:
      return "none";
    case Squash::kAll:
      return "all";
  }
  return "";
}

Json ClientRow(const AdminView& view, const ClientTable::Entry& entry,
               const std::vector<SessionReport>* sessions) {
  Client& client = *entry.client;
  const absl::Time now = Loop::Now();
  const ClientPlace place = ClientPlaceOf(client.client_id_string());
  Traffic traffic;
  Json list = Json::array();
  if (sessions != nullptr) {
    for (const SessionReport& session : *sessions) {
      traffic.requests += session.traffic.requests;
      traffic.received_bytes += session.traffic.received_bytes;
      traffic.sent_bytes += session.traffic.sent_bytes;
      list.push_back({{"peer", session.peer},
                      {"transport", session.transport},
                      {"age_us", absl::ToInt64Microseconds(session.age)},
                      {"requests", session.traffic.requests},
                      {"received_bytes", session.traffic.received_bytes},
                      {"sent_bytes", session.traffic.sent_bytes}});
    }
  }
  const Holdings& held = *client.holdings();
  return {{"id", IdText(client.client_id())},
          {"name", ClientName(client.client_id_string())},
          {"host", place.host},
          {"mount_point", place.mount_point},
          {"address", entry.principal.host.ToString()},
          {"age_us", absl::ToInt64Microseconds(now - entry.since)},
          {"idle_us", absl::ToInt64Microseconds(now - client.renewed())},
          {"has_lease", entry.has_lease},
          {"requests", traffic.requests},
          {"received_bytes", traffic.received_bytes},
          {"sent_bytes", traffic.sent_bytes},
          {"opens", held.opens.load()},
          {"locks", held.locks.load()},
          {"promises", view.shared.store->promises().HeldBy(client.promisee())},
          {"delegations", view.shared.store->inventory().DelegationsOf(client.client_id())},
          {"recalls", RecallsOf(*view.shared.store, client.client_id())},
          {"credentials", client.credentials().count()},
          {"sessions", std::move(list)}};
}

}  // namespace

Json StatusReport(const AdminView& view) {
  const Shared& shared = view.shared;
  Store& store = *shared.store;
  const absl::Duration up = Loop::Now() - view.since;
  Json listens = Json::array();
  for (const ListenAddress& at : *view.bound) {
    listens.push_back(
        absl::StrCat(at.transport == Transport::kTcp ? "tcp:" : "rdma:", at.address.ToString()));
  }
  return {{"version", DAFS_VERSION},
          {"process", getpid()},
          {"since", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now() - up, absl::UTCTimeZone())},
          {"up_us", absl::ToInt64Microseconds(up)},
          {"listens", std::move(listens)},
          {"state_directory", shared.options->state_dir},
          {"exports", shared.options->exports.size()},
          {"exports_not_served", store.Opening().size()},
          {"clients", shared.clients->count()},
          {"connections", shared.sessions->connections()},
          {"connections_most", shared.options->max_sessions},
          {"opens", store.open_count()},
          {"locks", store.lock_count()},
          {"lock_waiters", store.inventory().waiting()},
          {"descriptors", store.descriptor_count()},
          {"promises", PromisesOf(shared)},
          {"delegations", DelegationsOf(store)},
          {"recall_us", absl::ToInt64Microseconds(shared.options->recall_time)},
          {"lease_us", absl::ToInt64Microseconds(shared.options->lease_time)},
          {"response_cache_bytes", shared.responses->bytes()},
          {"response_cache_bytes_most", shared.options->response_cache_bytes},
          {"message_memory_bytes", shared.budget->used_bytes()},
          {"message_memory_bytes_most", shared.options->message_memory_bytes},
          {"bucket_bounds_us", LatencyHistogram::BoundsUs()},
          {"log_level", LogLevelName()},
          {"grace", GraceOf(store)}};
}

Json StatsReport(const AdminView& view) {
  const Counts counts = CollectCounts(view);
  Json procedures = Json::object();
  for (size_t i = 0; i < wire::kProcedures.size(); ++i) {
    const wire::ProcedureTotals& one = counts.sum.totals.by_proc[i];
    if (!one.unused()) procedures[std::string(wire::kProcedures[i].name)] = wire::TotalsJson(one);
  }
  return {
      {"version", DAFS_VERSION},
      {"up_us", absl::ToInt64Microseconds(Loop::Now() - view.since)},
      {"bucket_bounds_us", LatencyHistogram::BoundsUs()},
      {"procedures", std::move(procedures)},
      {"sessions", {{"opened", counts.sum.sessions_opened}, {"lost", counts.sum.sessions_lost}}},
      {"slow_us", absl::ToInt64Microseconds(view.shared.options->slow)},
      {"slow_operations", counts.sum.slow_operations},
      {"silent_workers", counts.silent_workers}};
}

Json ClientsReport(const AdminView& view) {
  const Sessions sessions = CollectSessions(view);
  std::vector<Json> rows;
  bool cut = false;
  for (const ClientTable::Entry& entry : view.shared.clients->List(Loop::Now())) {
    if (cut = rows.size() == kMostRows; cut) break;
    const auto found = sessions.by_client.find(entry.client->client_id());
    rows.push_back(
        ClientRow(view, entry, found == sessions.by_client.end() ? nullptr : &found->second));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a["requests"].get<uint64_t>() > b["requests"].get<uint64_t>();
  });
  return {{"clients", std::move(rows)}, {"silent_workers", sessions.silent_workers}, {"cut", cut}};
}

Json OpensReport(const AdminView& view, std::string_view path) {
  Names names(view);
  std::vector<Json> rows;
  for (const auto& [client_id, client] : names.clients()) {
    // One more than fits, to know whether there are more.
    const std::vector<Inventory::Open> opens =
        names.inventory().OpensOf(client_id, kMostRows + 1 - rows.size(),
                                  [&](const ObjectKey& file) { return names.IsIn(file, path); });
    for (const Inventory::Open& open : opens) {
      Json row = names.Row(open.file, client_id);
      row["access"] = AccessWord(open.access);
      row["kind"] = open.is_delegation ? "delegation" : "open";
      rows.push_back(std::move(row));
    }
    if (rows.size() > kMostRows) break;
  }
  const bool cut = rows.size() > kMostRows;
  if (cut) rows.resize(kMostRows);
  SortByFile(rows);
  return {{"opens", std::move(rows)}, {"cut", cut}};
}

Json LocksReport(const AdminView& view, std::string_view path) {
  Names names(view);
  std::vector<Json> rows;
  for (const ObjectKey& file : names.inventory().LockedFiles()) {
    if (!names.IsIn(file, path)) continue;
    for (const Inventory::Lock& lock :
         names.inventory().LocksOn(file, kMostRows + 1 - rows.size())) {
      Json row = names.Row(file, lock.client_id);
      row["state"] = lock.waits ? "waits" : "held";
      row["type"] = lock.range.write ? "write" : "read";
      row["kind"] = lock.range.is_flock() ? "flock" : "range";
      row["first"] = lock.range.is_flock() ? 0 : lock.range.first;
      row["last"] = lock.range.is_flock() ? UINT64_MAX : lock.range.last;
      row["owner"] = OwnerText(lock.owner);
      row["for_local_program"] = lock.by_kernel;
      rows.push_back(std::move(row));
    }
    if (rows.size() > kMostRows) break;
  }
  const bool cut = rows.size() > kMostRows;
  if (cut) rows.resize(kMostRows);
  SortByFile(rows);
  return {{"locks", std::move(rows)}, {"cut", cut}};
}

Json ExportsReport(const AdminView& view) {
  const std::vector<size_t> opening = view.shared.store->Opening();
  Json rows = Json::array();
  for (size_t i = 0; i < view.shared.options->exports.size(); ++i) {
    const Export& e = view.shared.options->exports[i];
    Json clients = Json::array();
    for (const Cidr& block : e.clients) {
      const int bits = block.base.is_v4() ? block.prefix_bits - 96 : block.prefix_bits;
      clients.push_back(absl::StrCat(block.base.ToString(), "/", bits));
    }
    rows.push_back({{"name", e.name},
                    {"directory", e.directory},
                    {"served", std::find(opening.begin(), opening.end(), i) == opening.end()},
                    {"read_only", e.read_only},
                    {"squash", SquashWord(e.squash)},
                    {"anonuid", e.anonuid},
                    {"anongid", e.anongid},
                    {"secure", !e.insecure},
                    {"clients", std::move(clients)},
                    {"handles_lasting", e.lasting_handles},
                    {"changed_by_clients", e.only_clients_change}});
  }
  return {{"exports", std::move(rows)}};
}

}  // namespace dafs::server
