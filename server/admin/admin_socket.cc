#include "server/admin/admin_socket.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "runtime/status_macros.h"
#include "server/admin/answers.h"

namespace dafs::server {
namespace {

constexpr char kGroup[] = "dafs";

// 0: there is no such group.
gid_t GroupId() {
  group entry = {};
  group* found = nullptr;
  std::vector<char> buffer(4096);
  int error = 0;
  while ((error = getgrnam_r(kGroup, &entry, buffer.data(), buffer.size(), &found)) == ERANGE &&
         buffer.size() < (size_t{1} << 20)) {
    buffer.resize(buffer.size() * 2);
  }
  return error == 0 && found != nullptr ? found->gr_gid : 0;
}

// The directory of the default socket is shared with the mounts of this machine, which make it for
// root only. Their sockets stay so. A failure shows when the group cannot connect.
void OpenToGroup(const std::string& directory, gid_t group) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return;
  struct stat now;
  if (lstat(directory.c_str(), &now) != 0 || !S_ISDIR(now.st_mode)) return;
  if (now.st_uid != geteuid() || (now.st_mode & 0777) != 0700) return;
  if (lchown(directory.c_str(), static_cast<uid_t>(-1), group) == 0) {
    static_cast<void>(chmod(directory.c_str(), 0750));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminSocket>> AdminSocket::Start(const std::string& path,
                                                                const AdminView& view) {
  auto admin = absl::WrapUnique(new AdminSocket(view));
  ASSIGN_OR_RETURN(admin->loop_, Loop::Create({.max_spin = absl::ZeroDuration()}));
  const gid_t group = GroupId();
  if (group != 0 && path == kDefaultAdminSocket) {
    OpenToGroup(path.substr(0, path.rfind('/')), group);
  }
  ASSIGN_OR_RETURN(admin->socket_,
                   ControlSocket::Create({.path = path, .group = group, .keeps_other = true},
                                         [view](const ControlSocket::Question& question) {
                                           return AnswerAdmin(view, question);
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
