// The commands of an administrator to a running server: reload its exports, announce that they
// move. Each is logged and goes into the audit log. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/clients/client_table.h"
#include "server/clients/options.h"
#include "server/store/store.h"

namespace dafs::server {

class AuditLog;
class Worker;

// Writes a record of class admin. `by`: the user who requested it; empty: the server itself.
// `audit` may be null: there is none.
void AuditAdministration(AuditLog* audit, std::string_view op, std::string_view by,
                         std::string_view result);

class Administration {
 public:
  struct Uses {  // all outlive it
    const ServerOptions& options;
    Store& store;
    ClientTable& clients;
    const std::vector<std::unique_ptr<Worker>>& workers;
    AuditLog* audit;  // null: none
  };
  explicit Administration(const Uses& uses) : uses_(uses) {}

  // Server::Reload has the contract.
  absl::StatusOr<std::string> Reload(std::string_view by) ABSL_LOCKS_EXCLUDED(reloading_);
  // Takes no new clients, and names `to` as the first alternate location of all exports. `by`: the
  // user who requested it. Spec: 3.1.2.3.2.
  void AnnounceMove(const std::string& to, std::string_view by);
  // Server::EndReferenceChannels has the contract.
  void EndReferenceChannels();

 private:
  void TellClientsOfLocations();

  const Uses uses_;
  absl::Mutex reloading_;  // one at a time
};

}  // namespace dafs::server
