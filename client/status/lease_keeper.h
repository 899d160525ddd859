// The thread that keeps a client's leases alive and answers dafsctl. It has a loop and a session of
// its own, the control session: a request on any session renews all leases of the client, so it
// sends NULL only when the workers are silent. Spec: 4.5 (leases), 6.5.1; WIRE 5.3 LEASE_TIME.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/state/client.h"

namespace dafs::client {

struct LeaseKeeperOptions {
  // Where dafsctl finds the mount: a socket of this directory (made with mode 0700) named after
  // the mount point. Empty: none.
  std::string socket_directory = "/run/dafs";
  std::string requests_by;  // told to dafsctl: how the kernel's requests come
  std::string cpu_latency;  // and how fast idle CPUs wake
  std::string options;      // for -o remount: how it was mounted, separated by commas
};

class LeaseKeeper {
 public:
  // Starts the thread. A socket that cannot be made is logged, not an error. `client` outlives it.
  static absl::StatusOr<std::unique_ptr<LeaseKeeper>> Start(Client& client,
                                                            const LeaseKeeperOptions& options);
  // Ends the session and joins the thread. The workers' loops may still run, or not.
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // The socket in `directory` for `mount_point`.
  static std::string SocketPath(const std::string& directory, const std::string& mount_point);

 private:
  class Impl;
  explicit LeaseKeeper(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dafs::client
