// Accepts verbs connections: every request becomes a PendingEndpoint with an event channel of its
// own. Spec: E.5.3.2.1, E.8. One thread, as wire/dat/dat.h says. Internal.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "wire/dat/dat.h"
#include "wire/dat/verbs/connection.h"
#include "wire/dat/verbs/verbs.h"

namespace dafs::dat::verbs {

class VerbsListener final : public Listener {
 public:
  static absl::StatusOr<std::unique_ptr<Listener>> Create(std::shared_ptr<Opener> opener,
                                                          const Address& local,
                                                          const VerbsOptions& options);

  // kResourceExhausted: one request was refused for lack of descriptors or memory; the listener
  // goes on. kUnavailable: the device is gone; each further call tries to listen there again.
  absl::StatusOr<std::unique_ptr<PendingEndpoint>> Next() override;
  WaitHandle Arm() override;
  const Address& local() const override { return local_; }

 private:
  VerbsListener(std::unique_ptr<Connection> connection, const Address& local,
                const VerbsOptions& options)
      : opener_(connection->opener()),
        connection_(std::move(connection)),
        local_(local),
        options_(options) {}

  const std::shared_ptr<Opener> opener_;
  std::unique_ptr<Connection> connection_;  // null after its device was removed
  const Address local_;
  const VerbsOptions options_;
};

}  // namespace dafs::dat::verbs
