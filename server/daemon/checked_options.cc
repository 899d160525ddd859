#include "server/daemon/checked_options.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/clients/passwords.h"
#include "server/store/holdings/delegations/delegations.h"
#include "server/store/holdings/locks/kernel_leases.h"
#include "wire/dat/dat.h"

namespace dafs::server {
namespace {

// Whether a recall is over before the kernel ends the lease by itself. Logs if it is not, and an
// export needs leases.
bool MayUseLeases(const ServerOptions& options) {
  const absl::Duration limit = KernelLeases::BreakTime();
  if (options.recall_time < limit) return true;
  const auto needs_leases = [](const Export& exported) { return !exported.only_clients_change; };
  if (options.delegations.most != Delegations::Type::kNone &&
      std::any_of(options.exports.begin(), options.exports.end(), needs_leases)) {
    LogNotice(absl::StrCat("exports with changed_by=anyone: no delegations, because --recall-time ",
                           absl::FormatDuration(options.recall_time),
                           " is not below fs.lease-break-time ", absl::FormatDuration(limit),
                           "; set a shorter recall time"));
  }
  return false;
}

}  // namespace

ServerOptions CompleteOptions(ServerOptions options) {
  if (options.listen.empty()) {
    for (const char* host : {"127.0.0.1", "::1"}) {
      auto addresses = dat::ResolveHost(host, dat::kDefaultPort);
      if (addresses.ok()) options.listen.push_back({Transport::kTcp, addresses->front()});
    }
  }
  if (options.workers == 0) {
    options.workers = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  }
  return options;
}

absl::Status CheckOptions(const ServerOptions& options) {
  auto bad = [](auto... what) { return absl::InvalidArgumentError(absl::StrCat(what...)); };
  if (options.state_dir.empty()) return bad("no state directory; give one with --state-dir");
  if (options.max_message_bytes < 4096 || options.max_message_bytes > (16u << 20)) {
    return bad("--max-request-size ", options.max_message_bytes, ": 4096 to 16777216 bytes");
  }
  if (options.max_requests < 1 || options.max_requests > 4096) {
    return bad("--max-requests ", options.max_requests, ": 1 to 4096");
  }
  if (options.max_transfer_bytes < 65536 || options.max_transfer_bytes > (16u << 20)) {
    return bad("--max-transfer-size ", options.max_transfer_bytes, ": 65536 to 16777216 bytes");
  }
  RETURN_IF_ERROR(CheckProtection(options.exports, options.tls, options.acceptor != nullptr,
                                  !options.password_file.empty()));
  if (!options.password_file.empty()) RETURN_IF_ERROR(CheckPasswordFile(options.password_file));
  if (options.workers > 256 || options.pool_threads < 1 || options.pool_threads > 256) {
    return bad("--threads and --disk-threads: 1 to 256");
  }
  if (options.recall_time <= absl::ZeroDuration()) return bad("--recall-time: at least 1 second");
  if (options.lease_time < absl::Milliseconds(100)) return bad("--lease-time: at least 1 second");
  return absl::OkStatus();
}

StoreOptions StoreOptionsOf(const ServerOptions& options) {
  StoreOptions store;
  store.exports = options.exports;
  store.state_dir = options.state_dir;
  store.max_read = store.max_write = store.max_append = options.max_transfer_bytes;
  store.pref_io_size = options.max_transfer_bytes;
  store.stable = options.stable;
  store.lease_time = options.lease_time;
  store.keep_orphans = true;
  store.undo_space_bytes = options.undo_space_bytes;
  store.export_cache_bytes = options.export_cache_bytes;
  store.promises.of_client = options.max_promises;
  store.delegations = options.delegations;
  store.use_leases = MayUseLeases(options);
  if (options.audit.destination != kAuditToSyslog) store.audit_file = options.audit.destination;
  store.counts_use =
      !options.audit.destination.empty() && (options.audit.classes & SetOf(AuditClass::kOpen)) != 0;
  return store;
}

}  // namespace dafs::server
