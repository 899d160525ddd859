// The thread of dafsd that answers dafsctl: a loop with one control socket. Root and the group dafs
// may ask; only root may change something (answers.h).
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/loop/loop.h"
#include "runtime/sockets/control_socket.h"
#include "server/admin/admin_view.h"

namespace dafs::server {

// Where dafsctl looks for dafsd. Its directory is open to the group, too.
inline constexpr char kDefaultAdminSocket[] = "/run/dafs/dafsd.sock";

class AdminSocket {
 public:
  // Starts the thread. What `view` borrows outlives this. Errors name the path. kAlreadyExists:
  // another dafsd answers there.
  static absl::StatusOr<std::unique_ptr<AdminSocket>> Start(const std::string& path,
                                                            const AdminView& view);
  ~AdminSocket();  // removes the socket and joins; waits for the answer to one request
  AdminSocket(const AdminSocket&) = delete;
  AdminSocket& operator=(const AdminSocket&) = delete;

 private:
  explicit AdminSocket(const AdminView& view) : view_(view) {}

  const AdminView view_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ControlSocket> socket_;
  std::thread thread_;
};

}  // namespace dafs::server
