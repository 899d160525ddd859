// The client of a mount: the mount options that concern the client, its transports, and the name
// under which the server knows it. Belongs to the main thread.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/state/client.h"
#include "fuse/files/user_clients.h"
#include "fuse/mount/client/client_id.h"
#include "fuse/mount/process/exit_code.h"
#include "fuse/options/options.h"
#include "fuse/restart/handover_record.h"
#include "runtime/files/unique_fd.h"
#include "wire/dat/address.h"
#include "wire/dat/dat.h"
#include "wire/dat/iwarp/iwarp.h"

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
  // The same for a mount that another program has left (docs/restart.md): takes its name at the
  // server, with the lock of its client id, and resolves nothing.
  Outcome MakeAgain(const Options& options, bool may_lock, const HandoverRecord& record,
                    UniqueFd lock);
  // From now on the server has these addresses. After Make or MakeAgain.
  void SetAddresses(const std::vector<dat::Address>& addresses);
  client::Client& get() { return *client_; }
  // With sec=krb5: the clients of the users. Null: there are none.
  UserClients* users() { return users_.get(); }
  // The lock of the client id, for the guardian; -1: none.
  int lock() const { return client_id_.lock.get(); }

 private:
  Outcome Create(client::ClientOptions options);
  Outcome MakeUsers(const Options& options, client::ClientOptions base);
  void UseTcp(const Options& o, dat::IwarpOptions tcp, client::ClientOptions& client);
  absl::Status AddTransports(const Options& options, client::ClientOptions& client);

  ClientId client_id_;
  std::unique_ptr<dat::Provider> rdma_;
  std::unique_ptr<dat::Provider> tcp_;
  std::unique_ptr<dat::Provider> users_tcp_;
  std::unique_ptr<client::Client> client_;
  std::unique_ptr<UserClients> users_;
};

}  // namespace dafs::fuse
