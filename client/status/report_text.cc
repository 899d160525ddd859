#include "client/status/report_text.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/size_text.h"
#include "runtime/text.h"

namespace dafs::client {
namespace {

std::string Short(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(
      duration, duration < absl::Seconds(1) ? absl::Microseconds(1) : absl::Milliseconds(1)));
}

// With many users, those that were active last.
void AppendUsers(const std::vector<UserReport>& users, std::string* out) {
  constexpr size_t kMost = 20;
  if (users.empty()) return;
  absl::StrAppend(out, "  sessions of ", users.size(), users.size() == 1 ? " user\n" : " users\n");
  for (size_t i = 0; i < users.size() && i < kMost; ++i) {
    const bool has_answer = users[i].quiet != absl::InfiniteDuration();
    absl::StrAppend(
        out, "    user ", users[i].uid, ": ", users[i].opens, " open files, ",
        has_answer ? absl::StrCat("last answer ", Short(users[i].quiet), " ago") : "no answer yet",
        "\n");
  }
  if (users.size() > kMost) absl::StrAppend(out, "    and ", users.size() - kMost, " more\n");
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
  if (!s.server_id.empty()) {
    absl::StrAppend(out, "    server ", s.server_id, ", instance ", s.instance, ", cluster ",
                    s.cluster_id, "\n");
  }
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

void AppendCaching(const MountReport& report, std::string* out) {
  absl::StrAppend(out, "  caching ", Text(report.CachingName()));
  if (const Promises::Counts& counts = report.promises; counts.breaks.count() + counts.voids > 0) {
    absl::StrAppendFormat(out, ", %u changes announced, answered in %s on average, %u voids",
                          counts.breaks.count(), Short(counts.breaks.Mean()), counts.voids);
  }
  absl::StrAppend(out, "\n");
}

void AppendDelegations(const Delegations::Counts& delegations, std::string* out) {
  if (delegations.read + delegations.write + delegations.local_opens == 0) return;
  absl::StrAppendFormat(
      out, "  delegations %u read, %u write, %u opens and %u locks without a request",
      delegations.read, delegations.write, delegations.local_opens, delegations.local_locks);
  if (delegations.recalls > 0) {
    absl::StrAppendFormat(out, ", %u recalled, returned in %s on average", delegations.recalls,
                          Short(delegations.returns.Mean()));
  }
  absl::StrAppend(out, "\n");
}

void AppendPaths(const std::vector<Paths::Report>& paths, std::string* out) {
  if (paths.size() <= 1) return;
  for (const Paths::Report& path : paths) {
    absl::StrAppend(out, "  path ", path.address, " over ", path.transport, ": ", path.state,
                    ", sessions ", path.sessions, "\n");
  }
}

void AppendWorker(const WorkerReport& w, std::string* out) {
  absl::StrAppendFormat(out, "  %s, %u reconnects\n", w.name, w.connects > 0 ? w.connects - 1 : 0);
  if (w.session.up) {
    AppendSession(w.session, out);
  } else {
    absl::StrAppend(out, "    no session for ", Short(w.not_connected_for), ": ", w.not_connected,
                    "\n");
  }
  if (!w.waiting.empty()) {
    absl::StrAppend(out, "    waiting for ", Short(w.waiting_for), ": ", w.waiting, "\n");
  }
  if (w.fetched + w.reissued > 0) {
    absl::StrAppendFormat(out, "    lost requests: %u answers fetched, %u issued again\n",
                          w.fetched, w.reissued);
  }
  if (w.buffers.total > 0) {
    absl::StrAppendFormat(out,
                          "    buffers %u of %u bytes in all, %u in memory, leased %u, "
                          "quarantined %u, kept %u, waiting %u\n",
                          w.buffers.total, w.buffers.bytes, w.buffers.resident_bytes,
                          w.buffers.leased, w.buffers.quarantined, w.buffers.kept,
                          w.buffers.waiting);
  }
}

void AppendOperations(const MountReport& report, std::string* out) {
  const std::vector<PendingOperation> operations = report.Operations();
  for (const PendingOperation& one : operations) {
    absl::StrAppend(out, "  waiting for ", Short(one.age), ": ", one.operation, " of ",
                    one.file.empty() ? "an unknown file" : one.file, " by ",
                    one.process.empty() ? "an unknown process" : one.process, " (pid ", one.pid,
                    ", uid ", one.uid, ")\n");
  }
  if (const size_t all = report.OutstandingOperations(); all > operations.size()) {
    absl::StrAppend(out, "  ", all - operations.size(), " more operations in progress\n");
  }
}

}  // namespace

std::string StatusText(const MountReport& report) {
  std::string out = absl::StrFormat(
      "%s on %s\n  lease %u s, last answer %s ago, %u credentials registered\n", report.server_name,
      report.mount_point, report.lease_seconds, Short(report.quiet), report.credentials);
  AppendCaching(report, &out);
  AppendDelegations(report.delegations, &out);
  if (!report.requests_by.empty()) {
    absl::StrAppend(&out, "  requests by ", report.requests_by, "\n");
  }
  if (report.restarts > 0) {
    absl::StrAppend(
        &out, "  ", report.restarts, " restarts, the last at ",
        absl::FormatTime("%Y-%m-%d %H:%M:%S", report.restarted_at, absl::LocalTimeZone()), "\n");
  }
  AppendPaths(report.paths, &out);
  if (!report.cpu_latency.empty()) absl::StrAppend(&out, "  ", report.cpu_latency, "\n");
  AppendUsers(report.users, &out);
  for (const WorkerReport& worker : report.workers) AppendWorker(worker, &out);
  AppendOperations(report, &out);
  if (report.silent_workers > 0) {
    absl::StrAppend(&out, "  ", report.silent_workers, " workers did not answer in time\n");
  }
  return out;
}

std::string StatsText(const MountReport& report) {
  std::string out =
      absl::StrFormat("%s on %s\n%-20s %10s %8s %6s %7s %8s %9s %9s %9s %9s %8s %9s\n",
                      report.server_name, report.mount_point, "procedure", "calls", "errors",
                      "lost", "retries", "in", "out", "mean", "p99", "longest", "queued", "queue");
  const wire::CallTotals sum = report.Totals();
  for (size_t i = 0; i < sum.by_proc.size(); ++i) {
    const wire::ProcedureTotals& one = sum.by_proc[i];
    if (one.unused()) continue;
    const absl::Duration queue =
        one.queued > 0 ? one.queue_time / static_cast<int64_t>(one.queued) : absl::ZeroDuration();
    absl::StrAppendFormat(&out, "%-20s %10u %8u %6u %7u %8s %9s %9s %9s %9s %8u %9s\n",
                          Text(wire::kProcedures[i].name), one.calls(), one.errors, one.lost,
                          one.retries, BytesText(one.received_bytes), BytesText(one.sent_bytes),
                          Short(one.time.Mean()), Short(one.time.Quantile(0.99)),
                          Short(one.time.longest()), one.queued, Short(queue));
  }
  return out;
}

}  // namespace dafs::client
