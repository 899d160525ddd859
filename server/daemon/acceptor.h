// The thread that listens. It accepts connections within the limits and gives each to the worker
// with the fewest sessions; a further channel goes to the worker of its session. It also expires
// leases.
// Spec: 3.2.6.3 (the server listens), 4.4.1 (leases); docs/decisions.md, Server.
#pragma once

#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/loop/loop.h"
#include "server/session/shared/channel_routes.h"
#include "server/session/shared/shared.h"
#include "server/session/worker.h"
#include "wire/dat/dat.h"

namespace dafs::server {

class Acceptor {
 public:
  // Starts the thread. `workers` are borrowed and outlive it.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(
      const Shared& shared, std::span<const std::unique_ptr<Worker>> workers,
      std::vector<std::unique_ptr<dat::Listener>> listeners);
  ~Acceptor();  // stops listening and joins
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  class Source;

  Acceptor(const Shared& shared, std::span<const std::unique_ptr<Worker>> workers);
  void Take(std::unique_ptr<dat::PendingEndpoint> pending);
  size_t WorkerFor(const dat::PendingEndpoint& pending, const std::string& host);
  void ExpireLeases();
  void ForgetRemoved();

  const Shared shared_;
  std::span<const std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Loop> loop_;
  std::vector<std::unique_ptr<Source>> sources_;
  ChannelRoutes routes_;
  std::thread thread_;
};

}  // namespace dafs::server
