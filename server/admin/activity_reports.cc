// The reports that the workers contribute to: the traffic of clients, and the busiest files.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/gather.h"
#include "runtime/loop/loop.h"
#include "server/admin/json_fields.h"
#include "server/admin/report_names.h"
#include "server/admin/reports.h"
#include "server/clients/client_name.h"
#include "server/clients/client_table.h"
#include "server/session/worker.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/promises/promises.h"
#include "server/store/store.h"

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

std::string VersionText(const wire::ProgramVersion& version) {
  if (version == wire::ProgramVersion()) return "";
  return absl::StrCat(version.major, ".", version.minor, ".", version.patch);
}

uint64_t Rounded(double rate) { return static_cast<uint64_t>(std::llround(rate)); }

// The members about the sessions of one client.
struct Activity {
  Traffic traffic;
  Rate rate;
  wire::ProgramVersion version;
  Json sessions = Json::array();

  void Add(const SessionReport& session) {
    traffic.requests += session.traffic.requests;
    traffic.received_bytes += session.traffic.received_bytes;
    traffic.sent_bytes += session.traffic.sent_bytes;
    rate.requests += session.rate.requests;
    rate.received_bytes += session.rate.received_bytes;
    rate.sent_bytes += session.rate.sent_bytes;
    if (session.version != wire::ProgramVersion()) version = session.version;
    sessions.push_back({{"peer", session.peer},
                        {"transport", session.transport},
                        {"age_us", absl::ToInt64Microseconds(session.age)},
                        {"requests", session.traffic.requests},
                        {"received_bytes", session.traffic.received_bytes},
                        {"sent_bytes", session.traffic.sent_bytes}});
  }
};

Json RecallsOf(Store& store, const wire::ClientId& client_id) {
  const RecallTimes recalls = store.delegations().RecallTimesOf(client_id);
  return {{"count", recalls.begun},
          {"revoked", recalls.revoked},
          {"mean_us", absl::ToInt64Microseconds(recalls.mean())},
          {"longest_us", absl::ToInt64Microseconds(recalls.longest)}};
}

Json ClientRow(const AdminView& view, const ClientTable::Entry& entry,
               const std::vector<SessionReport>* sessions) {
  Client& client = *entry.client;
  const absl::Time now = Loop::Now();
  const ClientPlace place = ClientPlaceOf(client.client_id_string());
  Activity activity;
  if (sessions != nullptr) {
    for (const SessionReport& session : *sessions) activity.Add(session);
  }
  const Holdings& held = *client.holdings();
  return {{"id", IdText(client.client_id())},
          {"name", ClientName(client.client_id_string())},
          {"host", place.host},
          {"mount_point", place.mount_point},
          {"address", entry.principal.host.ToString()},
          {"version", VersionText(activity.version)},
          {"age_us", absl::ToInt64Microseconds(now - entry.since)},
          {"idle_us", absl::ToInt64Microseconds(now - client.renewed())},
          {"has_lease", entry.has_lease},
          {"requests", activity.traffic.requests},
          {"received_bytes", activity.traffic.received_bytes},
          {"sent_bytes", activity.traffic.sent_bytes},
          {"requests_per_s", Rounded(activity.rate.requests)},
          {"received_bytes_per_s", Rounded(activity.rate.received_bytes)},
          {"sent_bytes_per_s", Rounded(activity.rate.sent_bytes)},
          {"opens", held.opens.load()},
          {"locks", held.locks.load()},
          {"promises", view.shared.store->promises().HeldBy(client.promisee())},
          {"delegations", view.shared.store->inventory().DelegationsOf(client.client_id())},
          {"recalls", RecallsOf(*view.shared.store, client.client_id())},
          {"credentials", client.credentials().count()},
          {"sessions", std::move(activity.sessions)}};
}

uint64_t LoadOf(const Json& row) {
  return WeightOf(NumberOf(row, "requests_per_s"),
                  NumberOf(row, "received_bytes_per_s") + NumberOf(row, "sent_bytes_per_s"));
}

// The load on a file from all workers together, per second.
struct FileRate {
  double requests = 0;
  double bytes = 0;
};

}  // namespace

Json ClientsReport(const AdminView& view, std::string_view order) {
  const Sessions sessions = CollectSessions(view);
  std::vector<Json> rows;
  bool cut = false;
  for (const ClientTable::Entry& entry : view.shared.clients->List(Loop::Now())) {
    if (cut = rows.size() == kMostRows; cut) break;
    const auto found = sessions.by_client.find(entry.client->client_id());
    rows.push_back(
        ClientRow(view, entry, found == sessions.by_client.end() ? nullptr : &found->second));
  }
  const bool by_load = order == kByLoad;
  std::stable_sort(rows.begin(), rows.end(), [by_load](const Json& a, const Json& b) {
    return by_load ? LoadOf(a) > LoadOf(b) : NumberOf(a, "requests") > NumberOf(b, "requests");
  });
  return {{"clients", std::move(rows)}, {"silent_workers", sessions.silent_workers}, {"cut", cut}};
}

Json FilesReport(const AdminView& view) {
  const auto gather = std::make_shared<Gather<Worker::BusyReport>>();
  for (const auto& worker : *view.shared.workers) {
    gather->Expect();
    worker->CollectBusyFiles(
        [gather](Worker::BusyReport report) { gather->Put(std::move(report)); });
  }
  auto gathered = gather->Await();
  absl::flat_hash_map<ObjectKey, FileRate> rates;
  for (const Worker::BusyReport& report : gathered.reports) {
    const double seconds = std::max(absl::ToDoubleSeconds(report.over), 0.1);
    for (const FileUse& use : report.files) {
      FileRate& rate = rates[use.file];
      rate.requests += static_cast<double>(use.requests) / seconds;
      rate.bytes += static_cast<double>(use.bytes) / seconds;
    }
  }
  std::vector<std::pair<ObjectKey, FileRate>> files(rates.begin(), rates.end());
  const size_t most = std::min(files.size(), kMostBusyFiles);
  const auto busier = [](const auto& a, const auto& b) {
    const auto weight = [](const FileRate& rate) {
      return WeightOf(Rounded(rate.requests * 100), Rounded(rate.bytes * 100));
    };
    return weight(a.second) > weight(b.second);
  };
  std::partial_sort(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(most), files.end(),
                    busier);
  files.resize(most);
  ReportNames names(view);
  Json rows = Json::array();
  for (const auto& [file, rate] : files) {
    Json row = names.FileRow(file);
    row["requests_per_s"] = Rounded(rate.requests);
    row["bytes_per_s"] = Rounded(rate.bytes);
    rows.push_back(std::move(row));
  }
  return {{"files", std::move(rows)}, {"silent_workers", gathered.missing}};
}

}  // namespace dafs::server
