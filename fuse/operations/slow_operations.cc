#include "fuse/operations/slow_operations.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/recovery/calls/operation_times.h"
#include "fuse/cache/node_path.h"
#include "fuse/kernel/opcode_name.h"
#include "fuse/kernel/protocol.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"
#include "runtime/size_text.h"
#include "runtime/text.h"

namespace dafs::fuse {
namespace {

std::string ProcessName(const CallerProc& proc, uint32_t pid) {
  std::string name;
  if (proc.Shows(pid)) {
    std::ifstream file(proc.PathOf(pid, "comm"));
    std::getline(file, name);
  }
  return name;
}

// "10ms for a slot, 6.1s at the server (READ_DIRECT 6.1s)"
std::string Split(const client::OperationTimes& times, absl::Duration took) {
  std::string text =
      absl::StrCat(MillisecondsText(times.queue), " for a slot, ", MillisecondsText(times.session),
                   " for a session, ", MillisecondsText(times.server), " at the server");
  if (!times.slowest.empty()) {
    absl::StrAppend(&text, " (", Text(times.slowest), " ", MillisecondsText(times.slowest_took),
                    ")");
  }
  const absl::Duration rest = took - times.queue - times.session - times.server;
  return absl::StrCat(text, ", ", MillisecondsText(std::max(rest, absl::ZeroDuration())), " here");
}

}  // namespace

void SlowOperations::Track(const Call& call) {
  files_.operation_clock().Begin(call.header().unique);
}

void SlowOperations::Judge(const Call& call) {
  const client::OperationTimes times = files_.operation_clock().End(call.header().unique);
  const absl::Time now = Loop::Now();
  const absl::Duration took = now - call.arrived();
  if (took < threshold_ || call.header().opcode == FUSE_SETLKW) return;
  ++count_;
  if (!budget_.Admits(now)) return;
  const client::PendingOperation one = Describe(call, now);
  LogWarning(
      absl::StrCat(state_.options.source.text, ": slow: ", one.operation, " of ",
                   one.file.empty() ? "an unknown file" : absl::CHexEscape(one.file), " by ",
                   one.process.empty() ? "an unknown process" : absl::CHexEscape(one.process),
                   " (pid ", one.pid, ", uid ", one.uid, ") took ", MillisecondsText(took), ": ",
                   Split(times, took), budget_.TakeLeftOut()));
}

client::PendingOperation SlowOperations::Describe(const Call& call, absl::Time now) const {
  const fuse_in_header& header = call.header();
  return {.operation = OpcodeName(header.opcode),
          .file = PathOf(state_.caches.inodes, header.nodeid),
          .pid = header.pid,
          .process = ProcessName(proc_, header.pid),
          .uid = header.uid,
          .age = now - call.arrived()};
}

void SlowOperations::Report(const OutstandingCalls& calls, client::WorkerReport& report) const {
  const absl::Time now = Loop::Now();
  std::vector<const Call*> old;
  calls.ForEach([&](const Call& call) {
    if (call.answered()) return;
    ++report.outstanding_operations;
    if (now - call.arrived() >= kPendingFrom) old.push_back(&call);
  });
  std::sort(old.begin(), old.end(),
            [](const Call* a, const Call* b) { return a->arrived() < b->arrived(); });
  if (old.size() > kMostReported) old.resize(kMostReported);
  for (const Call* call : old) report.operations.push_back(Describe(*call, now));
  report.slow_operations = count_;
}

}  // namespace dafs::fuse
