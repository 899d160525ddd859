#include "server/admin/admin_socket.h"

#include <utility>

#include "absl/memory/memory.h"
#include "runtime/status_macros.h"
#include "server/admin/answers.h"

namespace dafs::server {
absl::StatusOr<std::unique_ptr<AdminSocket>> AdminSocket::Start(const std::string& path,
                                                                const AdminView& view) {
  auto admin = absl::WrapUnique(new AdminSocket(view));
  ASSIGN_OR_RETURN(admin->loop_, Loop::Create({.max_spin = absl::ZeroDuration()}));
  const gid_t group = ControlGroup();
  if (path == kDefaultAdminSocket) OpenToControlGroup(path.substr(0, path.rfind('/')));
  ASSIGN_OR_RETURN(admin->socket_,
                   ControlSocket::Create({.path = path, .group = group, .keeps_other = true},
                                         [view](const ControlSocket::Request& request) {
                                           return AnswerAdmin(view, request);
                                         }));
  admin->loop_->Add(admin->socket_.get());
  admin->thread_ = std::thread([loop = admin->loop_.get()] { loop->Run(); });
  return admin;
}

AdminSocket::~AdminSocket() {
  if (!thread_.joinable()) return;
  loop_->Stop();
  thread_.join();
  loop_->Remove(socket_.get());
}

}  // namespace dafs::server
