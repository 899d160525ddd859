#include "fuse/mount/errors/mount_messages.h"

#include "fuse/restart/named_place.h"
#include "runtime/log/log.h"

namespace dafs::fuse {
namespace {

// Which of the kernel and the server checks permissions, if the server maps all users to one.
void LogWhoChecks(const MountState& state, const MountFacts& facts) {
  const std::string& source = state.options.source.text;
  if (facts.squashed_in_part && state.kernel.default_permissions) {
    LogWarning(
        source +
        ": some of the exports map all users to one (all_squash), but default_permissions "
        "lets the kernel compare users of this machine with that one: it may refuse what the "
        "server permits; mount such an export by itself");
  }
  if (!facts.squashed) return;
  if (state.kernel.default_permissions) {
    LogWarning(source +
               ": the server maps all users to one (all_squash), but default_permissions lets the "
               "kernel compare users of this machine with that one: it may refuse what the server "
               "permits; mount without default_permissions");
  } else {
    LogNotice(source +
              ": the server maps all users to one (all_squash); it alone checks permissions");
  }
}

}  // namespace

void LogMounted(const MountState& state, const MountFacts& facts) {
  const std::string& source = state.options.source.text;
  const std::string server =
      source.starts_with(facts.session.peer) ? "" : facts.session.peer + ", ";
  const std::string place = PlaceText(state.options);
  LogNotice("mounted " + source + (place.empty() ? "" : " (" + place + ")") + " on " +
            facts.mount_point + ": " + server + facts.session.transport);
  if (!facts.session.passed_over.empty()) {
    LogInfo("mount " + facts.mount_point + ": tried before: " + facts.session.passed_over);
  }
  LogInfo("mount " + facts.mount_point + ": requests by " + facts.requests_by);
  LogInfo("mount " + facts.mount_point +
          (facts.session.memory_by_windows
               ? ": the server can access a data buffer only while a request for it is outstanding "
                 "(memory windows)"
               : ": the server can access all data buffers while a session lasts (registered "
                 "memory, " +
                     facts.session.memory + ")"));
  LogInfo("mount " + facts.mount_point + ": " + facts.cpu_latency);
  LogWhoChecks(state, facts);
}

}  // namespace dafs::fuse
