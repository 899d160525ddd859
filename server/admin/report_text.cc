#include "server/admin/report_text.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "runtime/size_text.h"
#include "runtime/text.h"
#include "server/admin/json_fields.h"
#include "server/store/objects/export.h"
#include "wire/protocol/lock_ranges.h"

namespace dafs::server {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

// Pads all columns but the last. The first row has the headings.
std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      absl::StrAppendFormat(&text, "%-*s  ", static_cast<int>(widths[i]), row[i]);
    }
    absl::StrAppend(&text, row.back(), "\n");
  }
  return text;
}

std::string TextOf(const Json& json, const char* name) { return json[name].get<std::string>(); }
bool Is(const Json& json, const char* name) { return json[name].get<bool>(); }

std::string Time(const Json& json, const char* name) {
  const absl::Duration time = absl::Microseconds(json[name].get<int64_t>());
  const absl::Duration step = time < absl::Milliseconds(10) ? absl::Microseconds(1)
                              : time < absl::Seconds(10)    ? absl::Milliseconds(1)
                                                            : absl::Seconds(1);
  return absl::FormatDuration(absl::Trunc(time, step));
}

// Their number, and their mean and longest time.
std::string RecallTimesText(const Json& recalls) {
  const uint64_t count = NumberOf(recalls, "count");
  if (count == 0) return "0";
  return absl::StrCat(count, " in ", Time(recalls, "mean_us"), "/", Time(recalls, "longest_us"));
}

std::string Cut(const Json& report, size_t rows) {
  if (!Is(report, "cut")) return "";
  return absl::StrCat("only ", rows, " are shown; there are more\n");
}

std::string Silent(const Json& report, std::string_view consequence) {
  const uint64_t silent = NumberOf(report, "silent_workers");
  if (silent == 0) return "";
  return absl::StrCat(silent, " workers did not answer in time: ", Text(consequence), "\n");
}

std::string FileOf(const Json& row) {
  const std::string path = TextOf(row, "file");
  return path.empty() ? absl::StrCat(TextOf(row, "export"), ": handle ", TextOf(row, "handle"))
                      : path;
}

std::string ClientOf(const Json& row) {
  const std::string name = TextOf(row, "client");
  return name.empty() ? TextOf(row, "client_id") : name;
}

}  // namespace

std::string DrainText(const Json& drain) {
  const std::string state = TextOf(drain, "state");
  if (state == "serving") return "takes new clients";
  if (state == "drained") return "drained: no client is left";
  return absl::StrCat("draining: ", NumberOf(drain, "clients"), " clients left, with ",
                      NumberOf(drain, "opens"), " opens and ", NumberOf(drain, "locks"), " locks");
}

std::string StatusReportText(const Json& report) {
  const Json& promises = report["promises"];
  const Json& delegations = report["delegations"];
  const Json& grace = report["grace"];
  std::string text = absl::StrFormat(
      "dafsd %s, process %d, up %s since %s\n"
      "  listens on %s\n"
      "  state directory %s\n"
      "  server %s, instance %d, cluster %s\n"
      "  %d exports, %d not served yet\n"
      "  %d clients, %d connections of at most %d, lease %s\n"
      "  %d opens, %d locks, %d waiting, %d descriptors\n",
      TextOf(report, "version"), NumberOf(report, "process"), Time(report, "up_us"),
      TextOf(report, "since"),
      absl::StrJoin(report["listens"].get<std::vector<std::string>>(), ", "),
      TextOf(report, "state_directory"), TextOf(report, "server_id"), NumberOf(report, "instance"),
      TextOf(report, "cluster_id"), NumberOf(report, "exports"),
      NumberOf(report, "exports_not_served"), NumberOf(report, "clients"),
      NumberOf(report, "connections"), NumberOf(report, "connections_most"),
      Time(report, "lease_us"), NumberOf(report, "opens"), NumberOf(report, "locks"),
      NumberOf(report, "lock_waiters"), NumberOf(report, "descriptors"));
  absl::StrAppendFormat(&text,
                        "  %d promises to %d clients, %d refused; %d times a client lost all\n"
                        "  %d calls, answered in %s on average, %s at most\n"
                        "  %d delegations; %d recalled, returned in %s on average, %s at most; "
                        "%d revoked after %s\n"
                        "  response caches %s of %s, messages %s of %s\n",
                        NumberOf(promises, "held"), NumberOf(promises, "clients"),
                        NumberOf(promises, "refused"), NumberOf(promises, "clients_voided"),
                        NumberOf(promises, "calls"), Time(promises, "answer_mean_us"),
                        Time(promises, "answer_longest_us"), NumberOf(delegations, "held"),
                        NumberOf(delegations, "recalled"), Time(delegations, "recall_mean_us"),
                        Time(delegations, "recall_longest_us"), NumberOf(delegations, "revoked"),
                        Time(report, "recall_us"),
                        BytesText(NumberOf(report, "response_cache_bytes")),
                        BytesText(NumberOf(report, "response_cache_bytes_most")),
                        BytesText(NumberOf(report, "message_memory_bytes")),
                        BytesText(NumberOf(report, "message_memory_bytes_most")));
  if (const Json& exported = report["exported_cache"]; !exported.is_null()) {
    absl::StrAppend(&text, "  ", NumberOf(exported, "blocks"), " blocks read by reference in ",
                    BytesText(NumberOf(exported, "bytes")), "; ", NumberOf(exported, "published"),
                    " were copied, ", NumberOf(exported, "invalidated"), " have changed, ",
                    NumberOf(exported, "evicted"), " were evicted\n");
  }
  if (TextOf(report["drain"], "state") != "serving") {
    absl::StrAppend(&text, "  ", DrainText(report["drain"]), ", for ",
                    Time(report["drain"], "since_us"), "\n");
  }
  if (Is(grace, "active")) {
    absl::StrAppend(&text, "  grace period for at most ", Time(grace, "left_us"), ": ",
                    Is(grace, "clients_unknown")
                        ? "every client"
                        : absl::StrCat(NumberOf(grace, "clients_expected"), " clients"),
                    " may reclaim\n");
  }
  return text;
}

std::string StatsReportText(const Json& report) {
  std::vector<Row> rows = {
      {"PROCEDURE", "CALLS", "ERRORS", "IN", "OUT", "QUEUED", "MEAN", "P99", "LONGEST"}};
  for (const auto& [name, one] : report["procedures"].items()) {
    rows.push_back({name, absl::StrCat(NumberOf(one, "calls")),
                    absl::StrCat(NumberOf(one, "errors")),
                    BytesText(NumberOf(one, "received_bytes")),
                    BytesText(NumberOf(one, "sent_bytes")), absl::StrCat(NumberOf(one, "queued")),
                    Time(one, "mean_us"), Time(one, "p99_us"), Time(one, "longest_us")});
  }
  const Json& sessions = report["sessions"];
  std::string text =
      Table(rows) + absl::StrFormat("%d sessions opened, %d lost\n", NumberOf(sessions, "opened"),
                                    NumberOf(sessions, "lost"));
  if (const uint64_t slow = NumberOf(report, "slow_us"); slow > 0) {
    absl::StrAppend(&text, NumberOf(report, "slow_operations"), " requests took ",
                    Time(report, "slow_us"), " or longer\n");
  }
  return text + Silent(report, "their requests are missing");
}

std::string ClientsReportText(const Json& report) {
  std::vector<Row> rows = {{"ID", "ADDRESS", "VERSION", "SINCE", "IDLE", "REQUESTS", "IN", "OUT",
                            "REQUESTS/S", "IN/S", "OUT/S", "OPENS", "LOCKS", "PROMISES",
                            "DELEGATIONS", "RECALLS", "REVOKED", "SESSIONS", "CLIENT"}};
  for (const Json& client : report["clients"]) {
    const Json& sessions = client["sessions"];
    std::string state = absl::StrCat(sessions.size());
    if (!sessions.empty()) absl::StrAppend(&state, " ", TextOf(sessions[0], "transport"));
    if (!Is(client, "has_lease")) absl::StrAppend(&state, " (lease expired)");
    const std::string version = TextOf(client, "version");
    rows.push_back(
        {TextOf(client, "id"), TextOf(client, "address"), version.empty() ? "-" : version,
         Time(client, "age_us"), Time(client, "idle_us"),
         absl::StrCat(NumberOf(client, "requests")), BytesText(NumberOf(client, "received_bytes")),
         BytesText(NumberOf(client, "sent_bytes")),
         absl::StrCat(NumberOf(client, "requests_per_s")),
         BytesText(NumberOf(client, "received_bytes_per_s")),
         BytesText(NumberOf(client, "sent_bytes_per_s")), absl::StrCat(NumberOf(client, "opens")),
         absl::StrCat(NumberOf(client, "locks")), absl::StrCat(NumberOf(client, "promises")),
         absl::StrCat(NumberOf(client, "delegations")), RecallTimesText(client["recalls"]),
         absl::StrCat(NumberOf(client["recalls"], "revoked")), std::move(state),
         TextOf(client, "name")});
  }
  return Table(rows) + Cut(report, rows.size() - 1) + Silent(report, "their sessions are missing");
}

std::string FilesReportText(const Json& report) {
  std::vector<Row> rows = {{"REQUESTS/S", "BYTES/S", "FILE"}};
  for (const Json& file : report["files"]) {
    rows.push_back({absl::StrCat(NumberOf(file, "requests_per_s")),
                    BytesText(NumberOf(file, "bytes_per_s")), FileOf(file)});
  }
  return Table(rows) + Silent(report, "their requests are missing");
}

std::string OpensReportText(const Json& report) {
  std::vector<Row> rows = {{"ACCESS", "KIND", "CLIENT", "FILE"}};
  for (const Json& open : report["opens"]) {
    rows.push_back({TextOf(open, "access"), TextOf(open, "kind"), ClientOf(open), FileOf(open)});
  }
  return Table(rows) + Cut(report, rows.size() - 1);
}

namespace {

std::string RangeText(const Json& lock) {
  std::string kind = TextOf(lock, "kind");
  if (kind != "range") return kind;
  const uint64_t last = NumberOf(lock, "last");
  const bool to_end = last >= wire::kFlockByte - 1;
  return absl::StrCat(NumberOf(lock, "first"), "-", to_end ? "end" : absl::StrCat(last));
}

}  // namespace

std::string FailedLocksReportText(const Json& report) {
  std::vector<Row> rows = {{"STATE", "TYPE", "RANGE", "CLIENT", "OWNER", "FILE"}};
  for (const Json& lock : report["locks"]) {
    rows.push_back({TextOf(lock, "state"), TextOf(lock, "type"), RangeText(lock), ClientOf(lock),
                    TextOf(lock, "owner"), FileOf(lock)});
  }
  return Table(rows) + Cut(report, rows.size() - 1);
}

std::string LocksReportText(const Json& report) {
  std::vector<Row> rows = {{"ID", "STATE", "TYPE", "RANGE", "CLIENT", "OWNER", "FILE"}};
  for (const Json& lock : report["locks"]) {
    std::string state = TextOf(lock, "state");
    if (Is(lock, "for_local_program")) state += " for a local program";
    if (Is(lock, "persistent")) state += " persistent";
    if (Is(lock, "auto_recovery")) state += " auto-recovery";
    rows.push_back({TextOf(lock, "id"), std::move(state), TextOf(lock, "type"), RangeText(lock),
                    ClientOf(lock), TextOf(lock, "owner"), FileOf(lock)});
  }
  return Table(rows) + Cut(report, rows.size() - 1);
}

std::string ExportsReportText(const Json& report) {
  std::vector<Row> rows = {{"EXPORT", "DIRECTORY", "CLIENTS", "OPTIONS"}};
  for (const Json& e : report["exports"]) {
    std::vector<std::string> options = {Is(e, "read_only") ? "ro" : "rw"};
    const std::string squash = TextOf(e, "squash");
    options.push_back(squash == "none" ? "no_root_squash" : squash + "_squash");
    options.emplace_back(Is(e, "secure") ? "secure" : "insecure");
    if (const std::string xprtsec = TextOf(e, "xprtsec"); xprtsec != XprtsecText(kXprtsecAll)) {
      options.push_back("xprtsec=" + xprtsec);
    }
    const auto certs = e["certs"].get<std::vector<std::string>>();
    if (!certs.empty()) options.push_back("certs=" + absl::StrJoin(certs, "+"));
    if (const std::string sec = TextOf(e, "sec"); sec != "sys") options.push_back("sec=" + sec);
    const auto principals = e["principals"].get<std::vector<std::string>>();
    if (!principals.empty()) options.push_back("principals=" + absl::StrJoin(principals, "+"));
    if (Is(e, "handles_lasting")) options.emplace_back("handles=lasting");
    const auto locations = e["failover"].get<std::vector<std::string>>();
    if (!locations.empty()) options.push_back("failover=" + absl::StrJoin(locations, "+"));
    if (Is(e, "changed_by_clients")) options.emplace_back("changed_by=clients");
    if (!Is(e, "served")) options.emplace_back("(not served yet)");
    const auto clients = e["clients"].get<std::vector<std::string>>();
    rows.push_back({TextOf(e, "name"), TextOf(e, "directory"),
                    clients.empty() ? "any" : absl::StrJoin(clients, "+"),
                    absl::StrJoin(options, ",")});
  }
  return Table(rows);
}

}  // namespace dafs::server
