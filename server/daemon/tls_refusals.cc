#include "server/daemon/tls_refusals.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"
#include "server/audit/audit_line.h"

namespace dafs::server {

void TlsRefusals::Say(const dat::Address& peer, const absl::Status& why) {
  AuditLog* const audit = audit_.load(std::memory_order_acquire);
  if (audit != nullptr && audit->Wants(AuditClass::kAuth)) {
    AuditLine line(absl::Now(), AuditClass::kAuth, "TLS_REFUSED");
    line.Add("peer", peer.ToString());
    line.Add("reason", std::string(why.message()));
    audit->Write(std::move(line).Take());
  }
  dat::Address host = peer;
  host.set_port(0);
  if (!said_.Admits(host.ToString(), "tls", Loop::Now())) return;
  LogWarning(absl::StrCat("connection from ", peer.ToString(), " refused: ", why.message()));
}

}  // namespace dafs::server
