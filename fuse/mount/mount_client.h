// The client of a mount: the mount options that concern the client, its transports, and the name
// under which the server knows it. Belongs to the main thread.
#pragma once

#include <memory>

#include "client/state/client.h"
#include "fuse/mount/client_id.h"
#include "fuse/mount/exit_code.h"
#include "fuse/options/options.h"
#include "wire/dat/dat.h"

namespace dafs::fuse {

// Whether proto=auto should try RDMA.
bool HasRdmaDevice();

class MountClient {
 public:
  MountClient() = default;
  MountClient(const MountClient&) = delete;
  MountClient& operator=(const MountClient&) = delete;

  // Resolves the server's name, which may block, and takes the client id. Connects to nothing.
  // `may_lock`: one write buffer is locked in memory. Call once, before get().
  Outcome Make(const Options& options, bool may_lock);
  client::Client& get() { return *client_; }

 private:
  void AddTransports(const Options& options, client::ClientOptions& client);

  ClientId client_id_;
  std::unique_ptr<dat::Provider> rdma_;
  std::unique_ptr<dat::Provider> tcp_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace dafs::fuse
