// Accepts verbs connections: each request becomes a PendingEndpoint with its own event channel.
// Spec: E.5.3.2.1, E.8. One thread, as in wire/dat/dat.h. Internal.
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

  // kResourceExhausted: one request was refused because descriptors or memory ran out; the listener
  // continues. kUnavailable: the device was removed; each further call tries to listen there again.
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
  std::unique_ptr<Connection> connection_;  // null after the removal of its device
  const Address local_;
  const VerbsOptions options_;
};

}  // namespace dafs::dat::verbs
