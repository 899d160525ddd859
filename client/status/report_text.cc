#include "client/status/report_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

std::string Short(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(
      duration, duration < absl::Seconds(1) ? absl::Microseconds(1) : absl::Milliseconds(1)));
}

CallTotals Sum(const MountReport& report) {
  CallTotals sum;
  for (const WorkerReport& worker : report.workers) {
    for (size_t i = 0; i < sum.by_proc.size(); ++i) {
      const ProcTotals& one = worker.totals.by_proc[i];
      ProcTotals& all = sum.by_proc[i];
      all.calls += one.calls;
      all.errors += one.errors;
      all.lost += one.lost;
      all.total += one.total;
      all.longest = std::max(all.longest, one.longest);
    }
  }
  return sum;
}

void AppendSession(const SessionReport& s, std::string* out) {
  absl::StrAppendFormat(
      out,
      "    transport %s, peer %s, up %s\n"
      "    session %s, %s, %s-endian, checksums %s\n"
      "    requests up to %u bytes, responses up to %u, %u credentials\n"
      "    credits %u (granted first %u, aim %u), slots %u, taken %u, waiting %u\n",
      s.transport, s.peer, Short(s.age), s.session_id, s.trusted ? "trusted" : "not trusted",
      s.big_endian ? "big" : "little", s.checksums ? "on" : "off", s.max_request_size,
      s.max_response_size, s.max_credentials, s.nreq, s.max_requests, s.target_nreq, s.slots,
      s.slots_taken, s.waiting_for_slots);
  if (!s.memory.empty()) {
    absl::StrAppend(out, "    data buffers: ", s.memory);
    if (s.memory_by_windows) {
      absl::StrAppend(out, ", ", s.windows_bound, " bound, ", s.windows_ended,
                      " not ended by the server");
    }
    absl::StrAppend(out, "\n");
  }
  if (!s.passed_over.empty()) {
    absl::StrAppend(out, "    tried before: ", s.passed_over, "\n");
  }
  for (const SessionReport::Outstanding& call : s.outstanding) {
    absl::StrAppendFormat(out, "    out: %s for %s\n", call.procedures, Short(call.age));
  }
}

// A JSON string. Escapes the characters that a mount point may contain.
std::string Quote(absl::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

const char* Bool(bool value) { return value ? "true" : "false"; }

void AppendJson(const SessionReport& s, std::string* out) {
  absl::StrAppend(
      out, "{\"transport\":", Quote(s.transport), ",\"peer\":", Quote(s.peer),
      ",\"memory\":", Quote(s.memory), ",\"memory_by_windows\":", Bool(s.memory_by_windows),
      ",\"windows_bound\":", s.windows_bound, ",\"windows_ended\":", s.windows_ended,
      ",\"passed_over\":", Quote(s.passed_over), ",\"age_us\":", absl::ToInt64Microseconds(s.age),
      ",\"session_id\":", Quote(s.session_id), ",\"trusted\":", Bool(s.trusted),
      ",\"checksums\":", Bool(s.checksums), ",\"big_endian\":", Bool(s.big_endian));
  absl::StrAppend(out, ",\"max_request_size\":", s.max_request_size,
                  ",\"max_response_size\":", s.max_response_size,
                  ",\"max_requests\":", s.max_requests, ",\"max_credentials\":", s.max_credentials,
                  ",\"nreq\":", s.nreq, ",\"target_nreq\":", s.target_nreq, ",\"slots\":", s.slots,
                  ",\"slots_taken\":", s.slots_taken,
                  ",\"waiting_for_slots\":", s.waiting_for_slots, ",\"outstanding\":[");
  const char* comma = "";
  for (const SessionReport::Outstanding& call : s.outstanding) {
    absl::StrAppend(out, comma, "{\"procedures\":", Quote(call.procedures),
                    ",\"age_us\":", absl::ToInt64Microseconds(call.age), "}");
    comma = ",";
  }
  absl::StrAppend(out, "]}");
}

void AppendJson(const WorkerReport& w, std::string* out) {
  absl::StrAppend(out, "{\"name\":", Quote(w.name), ",\"connects\":", w.connects, ",\"session\":");
  if (w.session.up) {
    AppendJson(w.session, out);
  } else {
    absl::StrAppend(out, "null,\"not_connected\":", Quote(w.not_connected),
                    ",\"not_connected_us\":", absl::ToInt64Microseconds(w.not_connected_for));
  }
  if (!w.waiting.empty()) {
    absl::StrAppend(out, ",\"waiting_for\":", Quote(w.waiting),
                    ",\"waiting_us\":", absl::ToInt64Microseconds(w.waiting_for));
  }
  absl::StrAppend(out, ",\"fetched\":", w.fetched, ",\"reissued\":", w.reissued);
  absl::StrAppend(out, ",\"buffers\":{\"total\":", w.buffers.total,
                  ",\"leased\":", w.buffers.leased, ",\"quarantined\":", w.buffers.quarantined,
                  ",\"kept\":", w.buffers.kept, ",\"waiting\":", w.buffers.waiting,
                  ",\"bytes\":", w.buffers.bytes, ",\"resident_bytes\":", w.buffers.resident_bytes,
                  "}}");
}

void AppendJson(const CallTotals& totals, std::string* out) {
  const char* comma = "";
  for (size_t i = 0; i < totals.by_proc.size(); ++i) {
    const ProcTotals& one = totals.by_proc[i];
    if (one.calls + one.lost == 0) continue;
    absl::StrAppend(out, comma, Quote(Text(wire::kProcedures[i].name)), ":{\"calls\":", one.calls,
                    ",\"errors\":", one.errors, ",\"lost\":", one.lost,
                    ",\"total_us\":", absl::ToInt64Microseconds(one.total),
                    ",\"longest_us\":", absl::ToInt64Microseconds(one.longest), "}");
    comma = ",";
  }
}

}  // namespace

std::string StatusText(const MountReport& report) {
  std::string out = absl::StrFormat(
      "%s on %s\n  lease %u s, last answer %s ago, %u credentials registered\n", report.server_name,
      report.mount_point, report.lease_seconds, Short(report.quiet), report.credentials);
  if (!report.requests_by.empty()) {
    absl::StrAppend(&out, "  requests by ", report.requests_by, "\n");
  }
  if (!report.cpu_latency.empty()) absl::StrAppend(&out, "  ", report.cpu_latency, "\n");
  for (size_t i = 0; i < report.workers.size(); ++i) {
    const WorkerReport& w = report.workers[i];
    absl::StrAppendFormat(&out, "  %s, %u reconnects\n", w.name,
                          w.connects > 0 ? w.connects - 1 : 0);
    if (w.session.up) {
      AppendSession(w.session, &out);
    } else {
      absl::StrAppend(&out, "    no session for ", Short(w.not_connected_for), ": ",
                      w.not_connected, "\n");
    }
    if (!w.waiting.empty()) {
      absl::StrAppend(&out, "    waiting for ", Short(w.waiting_for), ": ", w.waiting, "\n");
    }
    if (w.fetched + w.reissued > 0) {
      absl::StrAppendFormat(&out, "    lost requests: %u answers fetched, %u issued again\n",
                            w.fetched, w.reissued);
    }
    if (w.buffers.total > 0) {
      absl::StrAppendFormat(&out,
                            "    buffers %u of %u bytes in all, %u in memory, leased %u, "
                            "quarantined %u, kept %u, waiting %u\n",
                            w.buffers.total, w.buffers.bytes, w.buffers.resident_bytes,
                            w.buffers.leased, w.buffers.quarantined, w.buffers.kept,
                            w.buffers.waiting);
    }
  }
  if (report.silent_workers > 0) {
    absl::StrAppend(&out, "  ", report.silent_workers, " workers did not answer in time\n");
  }
  return out;
}

std::string StatsText(const MountReport& report) {
  std::string out = absl::StrFormat("%s on %s\n%-22s %12s %10s %8s %12s %12s\n", report.server_name,
                                    report.mount_point, "procedure", "calls", "errors", "lost",
                                    "mean", "longest");
  const CallTotals sum = Sum(report);
  for (size_t i = 0; i < sum.by_proc.size(); ++i) {
    const ProcTotals& one = sum.by_proc[i];
    if (one.calls + one.lost == 0) continue;
    absl::Duration mean =
        one.calls > 0 ? one.total / static_cast<int64_t>(one.calls) : absl::ZeroDuration();
    absl::StrAppendFormat(&out, "%-22s %12u %10u %8u %12s %12s\n", Text(wire::kProcedures[i].name),
                          one.calls, one.errors, one.lost, Short(mean), Short(one.longest));
  }
  return out;
}

std::string ReportJson(const MountReport& report) {
  std::string out = absl::StrCat(
      "{\"server\":", Quote(report.server_name), ",\"mount_point\":", Quote(report.mount_point),
      ",\"requests_by\":", Quote(report.requests_by),
      ",\"cpu_latency\":", Quote(report.cpu_latency), ",\"lease_seconds\":", report.lease_seconds,
      ",\"quiet_us\":", absl::ToInt64Microseconds(report.quiet),
      ",\"credentials\":", report.credentials, ",\"silent_workers\":", report.silent_workers,
      ",\"workers\":[");
  for (size_t i = 0; i < report.workers.size(); ++i) {
    if (i > 0) out += ",";
    AppendJson(report.workers[i], &out);
  }
  out += "],\"procedures\":{";
  AppendJson(Sum(report), &out);
  return out + "}}\n";
}

}  // namespace dafs::client
