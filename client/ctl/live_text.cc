#include "client/ctl/live_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/size_text.h"

namespace dafs::client {
namespace {

std::string Bytes(double bytes) { return BytesText(static_cast<uint64_t>(bytes)); }

std::string Time(double us) {
  if (us < 10000) return absl::StrFormat("%.0fus", us);
  return us < 1e7 ? absl::StrFormat("%.0fms", us / 1e3) : absl::StrFormat("%.0fs", us / 1e6);
}

std::string IostatRow(const char* name, const Rates& rates, double bytes) {
  const double kib = bytes / 1024;
  const double per_call = rates.calls > 0 ? 1 / rates.calls : 0;
  return absl::StrFormat("%-6s %10.3f %12.3f %10.3f %10.3f %8.3f %12.3f %12.3f %13.3f\n", name,
                         rates.calls, kib, kib * per_call, rates.retries, rates.errors,
                         rates.rtt_us / 1e3, (rates.rtt_us + rates.queue_us) / 1e3,
                         rates.queue_us / 1e3);
}

}  // namespace

std::string TopText(const std::vector<MountFigures>& mounts) {
  std::string text =
      absl::StrFormat("%9s %7s %8s %8s %7s %7s %11s %6s %6s  %s\n", "CALLS/s", "ERR/s", "MEAN",
                      "P99", "IN/s", "OUT/s", "CREDITS", "WAITS", "CALLS", "MOUNT");
  for (const MountFigures& mount : mounts) {
    absl::StrAppendFormat(
        &text, "%9.0f %7.0f %8s %8s %7s %7s %11s %6d %6d  %s%s\n", mount.all.calls,
        mount.all.errors, Time(mount.all.rtt_us), Time(mount.all.p99_us),
        Bytes(mount.all.received_bytes), Bytes(mount.all.sent_bytes),
        absl::StrCat(mount.in_use, "/", mount.credits), mount.waiting, mount.calls_outstanding,
        mount.name,
        mount.sessions_down > 0 ? absl::StrCat(" (", mount.sessions_down, " sessions down)")
                                : std::string());
  }
  return text;
}

std::string ClientsText(const std::vector<ClientFigures>& clients, size_t most) {
  std::string text = absl::StrFormat("%9s %7s %7s %8s %8s  %s\n", "CALLS/s", "IN/s", "OUT/s",
                                     "OPENS", "LOCKS", "CLIENT");
  for (size_t i = 0; i < std::min(clients.size(), most); ++i) {
    const ClientFigures& one = clients[i];
    absl::StrAppendFormat(&text, "%9.0f %7s %7s %8d %8d  %s\n", one.requests,
                          Bytes(one.received_bytes), Bytes(one.sent_bytes), one.opens, one.locks,
                          one.name);
  }
  if (clients.size() > most) absl::StrAppend(&text, clients.size() - most, " more clients\n");
  return text;
}

std::string IostatText(const MountFigures& mount) {
  return absl::StrCat(
      mount.name, ":\n",
      absl::StrFormat("%-6s %10s %12s %10s %10s %8s %12s %12s %13s\n", "", "ops/s", "kB/s", "kB/op",
                      "retries/s", "errors/s", "avg RTT (ms)", "avg exe (ms)", "avg queue (ms)"),
      IostatRow("read", mount.reads, mount.reads.received_bytes),
      IostatRow("write", mount.writes, mount.writes.sent_bytes),
      IostatRow("other", mount.others, mount.others.received_bytes + mount.others.sent_bytes),
      IostatRow("all", mount.all, mount.all.received_bytes + mount.all.sent_bytes));
}

}  // namespace dafs::client
