#include "server/store/system/kill_switch.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dafs::server {
namespace {

constexpr std::array<std::pair<std::string_view, KillStep>, 11> kSteps{{
    {"before", KillStep::kBefore},
    {"intent", KillStep::kIntent},
    {"called", KillStep::kCalled},
    {"marked", KillStep::kMarked},
    {"recorded", KillStep::kRecorded},
    {"replied", KillStep::kReplied},
    {"undo_saved", KillStep::kUndoSaved},
    {"undo_row", KillStep::kUndoRow},
    {"undo_written", KillStep::kUndoWritten},
    {"undo_synced", KillStep::kUndoSynced},
    {"undo_deleted", KillStep::kUndoDeleted},
}};

// Set with g_kill_step, before any thread exists.
constinit wire::Proc g_procedure{};
constinit std::atomic<int> g_left{0};

}  // namespace

absl::Status ArmKillSwitch(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ':');
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("--kill-at ", std::string(text),
                     ": give PROC:STEP[:N], STEP before, intent, called, marked, recorded, replied "
                     "or undo_..."));
  };
  int times = 1;
  if (parts.size() < 2 || parts.size() > 3) return bad();
  if (parts.size() == 3 && (!absl::SimpleAtoi(parts[2], &times) || times < 1)) return bad();
  for (const wire::ProcInfo& row : wire::kProcedures) {
    if (row.name == parts[0]) g_procedure = row.number;
  }
  KillStep step = KillStep::kNever;
  for (const auto& [name, value] : kSteps) {
    if (name == parts[1]) step = value;
  }
  if (g_procedure == wire::Proc{} || step == KillStep::kNever) return bad();
  g_left = times;
  g_kill_step = step;
  return absl::OkStatus();
}

void KillIfItIsTime(KillStep, wire::Proc procedure) {
  if (procedure != g_procedure || g_left.fetch_sub(1) != 1) return;
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

}  // namespace dafs::server
