#include "server/daemon/standby.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/durable/state_dir_check.h"

namespace dafs::server {
namespace {

void ReadAgain(ServerOptions& options) {
  const auto failed = [](const absl::Status& why) {
    LogError(absl::StrCat(
        "standby: ", why.ToString(),
        "; it takes over with the exports and certificates that it read at its start"));
  };
  if (options.read_exports != nullptr) {
    absl::StatusOr<std::vector<Export>> exports = options.read_exports();
    if (exports.ok()) {
      options.exports = *std::move(exports);
    } else {
      failed(exports.status());
    }
  }
  if (options.reload_tls == nullptr) return;
  if (absl::Status status = options.reload_tls(); !status.ok()) failed(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateLock>> AwaitTurn(ServerOptions& options,
                                                     absl::AnyInvocable<void()> on_wait) {
  RETURN_IF_ERROR(CheckStateDir(options.state_dir));
  bool has_waited = false;
  ASSIGN_OR_RETURN(std::unique_ptr<StateLock> lock, StateLock::Await(options.state_dir, [&] {
                     has_waited = true;
                     LogNotice(absl::StrCat("standby: another dafsd uses ", options.state_dir,
                                            "; this one takes over when that one ends"));
                     on_wait();
                   }));
  if (!has_waited) return lock;
  LogNotice(absl::StrCat("standby: ", options.state_dir, " is free; taking over"));
  ReadAgain(options);
  return lock;
}

}  // namespace dafs::server
