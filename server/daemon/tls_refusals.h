// Connections that TLS has refused: a line in the log, at most a few for each host, and a record of
// class auth in the audit log for each.
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "server/audit/audit_log.h"
#include "server/session/shared/refusal_log.h"
#include "wire/dat/dat.h"

namespace dafs::server {

class TlsRefusals {
 public:
  // `log` outlives the listeners that call Say. Null: nothing is recorded.
  void SetAudit(AuditLog* log) { audit_.store(log, std::memory_order_release); }

  // The handshake with `peer` has failed, or the client of a complete one sent something wrong.
  void Say(const dat::Address& peer, const absl::Status& why);

 private:
  std::atomic<AuditLog*> audit_{nullptr};  // publishes the log
  RefusalLog said_;
};

}  // namespace dafs::server
