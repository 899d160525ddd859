#include "server/daemon/administration.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/log/log.h"
#include "runtime/loop/loop.h"
#include "runtime/text.h"
#include "server/audit/audit_line.h"
#include "server/audit/audit_log.h"
#include "server/session/worker.h"
#include "server/store/holdings/exported_cache.h"
#include "server/store/parts/export_reload.h"

namespace dafs::server {

void AuditAdministration(AuditLog* audit, std::string_view op, std::string_view by,
                         std::string_view result) {
  if (audit == nullptr || !audit->Wants(AuditClass::kAdmin)) return;
  AuditLine line(absl::Now(), AuditClass::kAdmin, op);
  if (!by.empty()) line.Add("by", by);
  line.Add("result", result);
  audit->Write(std::move(line).Take());
}

void Administration::EndReferenceChannels() {
  uses_.store.exported().DropAll();
  for (const auto& worker : uses_.workers) worker->EndReferenceChannels();
}

absl::StatusOr<std::string> Administration::Reload(std::string_view by) {
  absl::MutexLock lock(&reloading_);
  const auto failed = [this, by](const absl::Status& status) {
    std::string why(status.message());
    if (uses_.options.place_export != nullptr) why = uses_.options.place_export(why);
    absl::StrAppend(&why, "; nothing has changed: correct that and reload again");
    LogError(absl::StrCat("reload by ", Text(by), ": ", why));
    AuditAdministration(uses_.audit, "RELOAD", by, why);
    return absl::Status(status.code(), why);
  };
  if (uses_.audit != nullptr) uses_.audit->Reopen();
  if (uses_.options.ids != nullptr) uses_.options.ids->Forget();
  if (uses_.options.read_exports == nullptr) {
    return absl::FailedPreconditionError("reload: this server has no file to read exports from");
  }
  absl::StatusOr<std::vector<Export>> wanted = uses_.options.read_exports();
  if (!wanted.ok()) return failed(wanted.status());
  if (absl::Status fits =
          CheckProtection(*wanted, uses_.options.tls, uses_.options.acceptor != nullptr,
                          !uses_.options.password_file.empty());
      !fits.ok()) {
    return failed(fits);
  }
  const absl::StatusOr<ExportChanges> changes =
      uses_.store.reload().Reload(*std::move(wanted), uses_.options.open_within);
  if (!changes.ok()) return failed(changes.status());
  std::string said;
  const auto add = [&said](const std::vector<std::string>& names, absl::string_view what) {
    if (names.empty()) return;
    absl::StrAppend(&said, said.empty() ? "" : "; ", what, " ", absl::StrJoin(names, ", "));
  };
  add(changes->added, "added");
  add(changes->removed, "removed");
  add(changes->changed, "changed the options of");
  if (said.empty()) said = "no export has changed";
  TellClientsOfLocations();
  // The former exports decided what each of their clients may read.
  EndReferenceChannels();
  LogNotice(absl::StrCat("reload by ", Text(by), ": ", said));
  AuditAdministration(uses_.audit, "RELOAD", by, said);
  if (uses_.options.reload_tls == nullptr) return said;
  if (absl::Status status = uses_.options.reload_tls(); !status.ok()) {
    const std::string why =
        absl::StrCat(status.message(),
                     "; the certificates that were read before stay in use: correct that and "
                     "reload again");
    LogError(absl::StrCat("reload by ", Text(by), ": ", why));
    return absl::Status(status.code(), absl::StrCat(said, "; but ", why));
  }
  LogNotice(absl::StrCat("reload by ", Text(by), ": certificates were read again"));
  return said;
}

// Their next responses carry the flag.
void Administration::TellClientsOfLocations() {
  for (const ClientTable::Entry& entry : uses_.clients.List(Loop::Now())) {
    entry.client->locations().Compare(LocationsNow(uses_.store.exports()));
  }
}

void Administration::AnnounceMove(const std::string& to, std::string_view by) {
  uses_.clients.SetDraining(true, Loop::Now());
  uses_.store.reload().PreferAlternate(to);
  TellClientsOfLocations();
  LogNotice(absl::StrCat("drain by ", Text(by), ": clients go to ", to));
  AuditAdministration(uses_.audit, "DRAIN", by, to);
}

}  // namespace dafs::server
