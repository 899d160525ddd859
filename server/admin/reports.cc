#include "server/admin/reports.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/gather.h"
#include "runtime/latency.h"
#include "runtime/log/log_level.h"
#include "runtime/loop/loop.h"
#include "server/admin/report_names.h"
#include "server/audit/audit_log.h"
#include "server/clients/client_name.h"
#include "server/clients/client_table.h"
#include "server/clients/response_cache.h"
#include "server/session/directives/callbacks.h"
#include "server/session/shared/credit.h"
#include "server/session/shared/session_table.h"
#include "server/session/worker.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/exported_cache.h"
#include "server/store/holdings/grace.h"
#include "server/store/holdings/persistent_locks.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/parts/export_directories.h"
#include "server/store/parts/inventory.h"
#include "server/store/store.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/process_owner.h"
#include "wire/protocol/totals_json.h"

namespace dafs::server {
namespace {

using Json = nlohmann::ordered_json;

std::string_view StateWord(PersistentLocks::State state) {
  switch (state) {
    case PersistentLocks::State::kHeld:
      return "held";
    case PersistentLocks::State::kBreakable:
      return "breakable";
    case PersistentLocks::State::kBroken:
      return "broken";
    case PersistentLocks::State::kInRepair:
      return "in repair";
    case PersistentLocks::State::kUndoing:
      return "undoing";
  }
  return "";
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

// Null without an exported cache.
Json ExportedOf(Store& store) {
  if (!store.exported().on()) return nullptr;
  const ExportedCache::Counts counts = store.exported().GetCounts();
  return {{"bytes", counts.bytes},
          {"blocks", counts.blocks},
          {"published", counts.published},
          {"invalidated", counts.invalidated},
          {"evicted", counts.evicted}};
}

// Null without an audit log.
Json AuditOf(const Shared& shared) {
  if (shared.audit == nullptr) return nullptr;
  const AuditLog::Counts counts = shared.audit->counts();
  return {{"to", shared.audit->options().destination},
          {"records", counts.records},
          {"dropped", counts.dropped}};
}

Json DelegationsOf(Store& store) {
  const Delegations::Counts counts = store.delegations().GetCounts();
  return {{"held", counts.held},
          {"recalled", counts.recalls.begun},
          {"revoked", counts.recalls.revoked},
          {"recall_mean_us", absl::ToInt64Microseconds(counts.recalls.mean())},
          {"recall_longest_us", absl::ToInt64Microseconds(counts.recalls.longest)}};
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

std::vector<std::string> LocationTexts(const std::vector<FailoverLocation>& locations) {
  std::vector<std::string> texts;
  texts.reserve(locations.size());
  for (const FailoverLocation& one : locations) {
    texts.push_back(absl::StrCat(one.server, ":", one.path));
  }
  return texts;
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
          {"server_id", wire::HexOf(shared.identity->server_id)},
          {"instance", shared.identity->instance},
          {"cluster_id", shared.identity->cluster_id},
          {"exports", store.exports().Served().size()},
          {"exports_not_served", store.directories().Opening().size()},
          {"drain", DrainReport(view)},
          {"clients", shared.clients->count()},
          {"connections", shared.sessions->connections()},
          {"connections_most", shared.options->max_sessions},
          {"opens", store.inventory().open_count()},
          {"locks", store.inventory().lock_count()},
          {"lock_waiters", store.inventory().waiting()},
          {"descriptors", store.inventory().descriptor_count()},
          {"promises", PromisesOf(shared)},
          {"delegations", DelegationsOf(store)},
          {"exported_cache", ExportedOf(store)},
          {"recall_us", absl::ToInt64Microseconds(shared.options->recall_time)},
          {"lease_us", absl::ToInt64Microseconds(shared.options->lease_time)},
          {"response_cache_bytes", shared.responses->bytes()},
          {"response_cache_bytes_most", shared.options->response_cache_bytes},
          {"message_memory_bytes", shared.budget->used_bytes()},
          {"message_memory_bytes_most", shared.options->message_memory_bytes},
          {"bucket_bounds_us", LatencyHistogram::BoundsUs()},
          {"log_level", LogLevelName()},
          {"audit", AuditOf(shared)},
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

Json DrainReport(const AdminView& view) {
  const absl::Time now = Loop::Now();
  const std::optional<absl::Time> since = view.shared.clients->draining_since();
  uint64_t clients = 0, opens = 0, locks = 0, untold = 0;
  for (const ClientTable::Entry& entry : view.shared.clients->List(now)) {
    if (entry.sessions > 0 && entry.client->locations().changed()) ++untold;
    const Holdings& held = *entry.client->holdings();
    // One without either has left: it is known until its lease ends.
    if (entry.sessions == 0 && held.opens.load() == 0) continue;
    ++clients;
    opens += held.opens.load();
    locks += held.locks.load();
  }
  const char* const state = !since ? "serving" : clients > 0 ? "draining" : "drained";
  return {{"state", state},     {"since_us", since ? absl::ToInt64Microseconds(now - *since) : 0},
          {"clients", clients}, {"opens", opens},
          {"locks", locks},     {"untold", untold}};  // of the latest alternate locations
}

Json OpensReport(const AdminView& view, std::string_view path) {
  ReportNames names(view);
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

// Whether the lock, which is in the lock table, has the option `kind` of PersistentLocks.
bool HasKind(const std::vector<PersistentLocks::Entry>& recorded, const ObjectKey& file,
             const Inventory::Lock& lock, uint8_t kind) {
  return std::any_of(recorded.begin(), recorded.end(), [&](const PersistentLocks::Entry& each) {
    return (each.kind & kind) != 0 && each.state == PersistentLocks::State::kHeld &&
           each.file == file && each.owner == lock.owner && each.range.Overlaps(lock.range);
  });
}

Json LocksReport(const AdminView& view, std::string_view path) {
  ReportNames names(view);
  std::vector<Json> rows;
  const std::vector<PersistentLocks::Entry> recorded = view.shared.store->persistent_locks().List();
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
      row["id"] = LockOwnerId(lock.client_id, lock.owner);
      row["owner"] = OwnerText(lock.owner);
      row["for_local_program"] = lock.by_kernel;
      row["persistent"] = !lock.waits && HasKind(recorded, file, lock, PersistentLocks::kPersists);
      row["auto_recovery"] =
          !lock.waits && HasKind(recorded, file, lock, PersistentLocks::kRecovers);
      rows.push_back(std::move(row));
    }
    if (rows.size() > kMostRows) break;
  }
  const bool cut = rows.size() > kMostRows;
  if (cut) rows.resize(kMostRows);
  SortByFile(rows);
  return {{"locks", std::move(rows)}, {"cut", cut}};
}

Json FailedLocksReport(const AdminView& view, std::string_view path) {
  ReportNames names(view);
  std::vector<Json> rows;
  bool cut = false;
  for (const PersistentLocks::Entry& lock : view.shared.store->persistent_locks().List()) {
    if (lock.state == PersistentLocks::State::kHeld || !names.IsIn(lock.file, path)) continue;
    cut = rows.size() == kMostRows;
    if (cut) break;
    Json row = names.FileRow(lock.file);
    row["client"] = ClientName(lock.client_name);
    row["client_id"] = "";  // of a session that has ended
    row["state"] = StateWord(lock.state);
    row["type"] = lock.range.write ? "write" : "read";
    row["kind"] = lock.range.is_flock() ? "flock" : "range";
    row["first"] = lock.range.is_flock() ? 0 : lock.range.first;
    row["last"] = lock.range.is_flock() ? UINT64_MAX : lock.range.last;
    row["owner"] = OwnerText(lock.owner);
    rows.push_back(std::move(row));
  }
  SortByFile(rows);
  return {{"locks", std::move(rows)}, {"cut", cut}};
}

Json ExportsReport(const AdminView& view) {
  const std::vector<size_t> opening = view.shared.store->directories().Opening();
  Json rows = Json::array();
  const ExportSet& exports = view.shared.store->exports();
  for (size_t i = 0; i < exports.size(); ++i) {
    const Export& e = exports[i];
    if (e.removed) continue;
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
                    {"xprtsec", XprtsecText(e.xprtsec)},
                    {"certs", e.certs},
                    {"sec", SecText(e.sec)},
                    {"principals", e.principals},
                    {"handles_lasting", e.lasting_handles},
                    {"failover", LocationTexts(e.failover)},
                    {"changed_by_clients", e.only_clients_change}});
  }
  return {{"exports", std::move(rows)}};
}

}  // namespace dafs::server
