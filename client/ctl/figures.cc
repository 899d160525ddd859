#include "client/ctl/figures.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/latency.h"
#include "runtime/latency_quantile.h"

namespace dafs::client {
namespace {

using Json = nlohmann::ordered_json;

// Counters of some procedures. Members that an older program does not report are 0.
struct Sums {
  double calls = 0, errors = 0, retries = 0, lost = 0, received = 0, sent = 0;
  double total_us = 0, queue_us = 0;
  std::array<uint64_t, LatencyHistogram::kBuckets> buckets{};

  void Add(const Json& procedure, int sign) {
    const auto add = [&](double& to, const char* name) { to += sign * procedure.value(name, 0.0); };
    add(calls, "calls");
    add(errors, "errors");
    add(retries, "retries");
    add(lost, "lost");
    add(received, "received_bytes");
    add(sent, "sent_bytes");
    add(total_us, "total_us");
    add(queue_us, "queue_us");
    const auto counts = procedure.value("buckets", std::vector<uint64_t>());
    for (size_t i = 0; i < std::min(counts.size(), buckets.size()); ++i) {
      buckets[i] += sign > 0 ? counts[i] : -counts[i];
    }
  }

  Rates Over(double seconds) const {
    const double second = seconds > 0 ? 1 / seconds : 0;
    const double call = calls > 0 ? 1 / calls : 0;
    return {.calls = calls * second,
            .errors = errors * second,
            .retries = retries * second,
            .lost = lost * second,
            .received_bytes = received * second,
            .sent_bytes = sent * second,
            .rtt_us = total_us * call,
            .queue_us = queue_us * call,
            .p99_us = QuantileUs(buckets, 0.99)};
  }
};

enum class Kind : uint8_t { kRead, kWrite, kOther };

Kind KindOf(std::string_view procedure) {
  if (procedure == "READ_INLINE" || procedure == "READ_DIRECT") return Kind::kRead;
  if (procedure.starts_with("WRITE_") || procedure.starts_with("APPEND_")) return Kind::kWrite;
  return Kind::kOther;
}

std::string Id(const Json& mount) {
  return absl::StrCat(mount.value("server", ""), " on ", mount.value("mount_point", ""));
}

// Whether `now` continues what `before` counted.
bool Continues(const Json& before, const Json& now) {
  return before.is_object() && Id(before) == Id(now) &&
         before.value("up_us", int64_t{0}) <= now.value("up_us", int64_t{0});
}

void AddSessions(const Json& mount, MountFigures& figures) {
  for (const Json& worker : mount["workers"]) {
    const uint64_t connects = worker.value("connects", uint64_t{0});
    if (connects > 0) figures.reconnects += connects - 1;
    if (worker.contains("buffers")) {
      figures.waiting += worker["buffers"].value("waiting", uint64_t{0});
    }
    const Json& session = worker["session"];
    if (session.is_null()) {
      ++figures.sessions_down;
      continue;
    }
    figures.credits += session.value("nreq", uint64_t{0});
    figures.in_use += session.value("slots_taken", uint64_t{0});
    figures.waiting += session.value("waiting_for_slots", uint64_t{0});
  }
}

}  // namespace

MountFigures FiguresOf(const Json& before, const Json& now, double seconds) {
  std::array<Sums, 3> sums;
  Sums all;
  const bool continues = Continues(before, now);
  if (!continues) seconds = now.value("up_us", 0.0) / 1e6;
  const auto add = [&](const Json& mount, int sign) {
    for (const auto& [name, procedure] : mount["procedures"].items()) {
      sums[static_cast<size_t>(KindOf(name))].Add(procedure, sign);
      all.Add(procedure, sign);
    }
  };
  add(now, 1);
  if (continues) add(before, -1);
  MountFigures figures;
  figures.name = Id(now);
  figures.all = all.Over(seconds);
  figures.reads = sums[0].Over(seconds);
  figures.writes = sums[1].Over(seconds);
  figures.others = sums[2].Over(seconds);
  figures.calls_outstanding =
      now.value("calls_outstanding", now.value("calls_in_hand", uint64_t{0}));  // older mounts
  AddSessions(now, figures);
  return figures;
}

std::vector<ClientFigures> ClientsOf(const Json& before, const Json& now, double seconds) {
  std::map<std::string, const Json*> known;
  if (before.is_object()) {
    for (const Json& client : before["clients"]) known[client.value("id", "")] = &client;
  }
  std::vector<ClientFigures> figures;
  for (const Json& client : now["clients"]) {
    const auto found = known.find(client.value("id", ""));
    const double age = client.value("age_us", 0.0) / 1e6;
    const double over = std::max(found == known.end() ? age : seconds, 1e-6);
    const auto rate = [&](const char* name) {
      const double earlier = found == known.end() ? 0 : found->second->value(name, 0.0);
      return std::max(client.value(name, 0.0) - earlier, 0.0) / over;  // a session may have ended
    };
    figures.push_back({.name = client.value("name", ""),
                       .requests = rate("requests"),
                       .received_bytes = rate("received_bytes"),
                       .sent_bytes = rate("sent_bytes"),
                       .opens = client.value("opens", uint64_t{0}),
                       .locks = client.value("locks", uint64_t{0})});
  }
  std::stable_sort(
      figures.begin(), figures.end(),
      [](const ClientFigures& a, const ClientFigures& b) { return a.requests > b.requests; });
  return figures;
}

}  // namespace dafs::client
