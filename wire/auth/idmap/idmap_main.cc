// dafs-idmap MILLISECONDS DOMAIN CONFIG: asks libnfsidmap for users and groups, for IdMap
// (id_map.h). DOMAIN may be empty. Its standard input is the socket. The library runs in a worker
// process, which is killed when it does not answer for MILLISECONDS, and replaced. Ends when the
// socket is closed.
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "wire/auth/idmap/id_domain.h"
#include "wire/auth/idmap/id_message.h"
#include "wire/auth/idmap/id_worker.h"
#include "wire/auth/idmap/packet_socket.h"

namespace dafs::auth {
namespace {

std::optional<IdWorkerOptions> OptionsOf(int count, char** words) {
  if (count != 4) return std::nullopt;
  const std::string_view number = words[1];
  int milliseconds = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), milliseconds);
  if (error != std::errc() || end != number.data() + number.size() || milliseconds <= 0) {
    return std::nullopt;
  }
  IdWorkerOptions options = {
      .answer_time = absl::Milliseconds(milliseconds), .domain = words[2], .config = words[3]};
  if (!options.domain.empty() && !IsIdDomain(options.domain)) return std::nullopt;
  if (!options.config.starts_with('/')) return std::nullopt;
  return options;
}

// A name of the network needs no right of root, except to read files of root. Reports no error: the
// sandbox of a service may forbid some of it.
void DropRights() {
  const rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);  // it might hold the password of a directory
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &header, none);
}

int Serve(IdWorkerOptions options) {
  IdWorker worker(std::move(options));
  std::optional<uint32_t> generation;
  for (;;) {
    absl::StatusOr<std::string> bytes =
        ReceivePacket(STDIN_FILENO, kMostIdMessageBytes, absl::InfiniteFuture());
    if (!bytes.ok()) return 0;
    const std::optional<IdQuestion> question = DecodeIdQuestion(*bytes);
    if (!question.has_value()) return 1;
    if (generation != question->generation) worker.End();
    generation = question->generation;
    if (!SendPacket(STDIN_FILENO, worker.Ask(*bytes))) return 1;
  }
}

}  // namespace
}  // namespace dafs::auth

int main(int count, char** words) {
  auto options = dafs::auth::OptionsOf(count, words);
  if (!options.has_value()) return 2;
  // A service manager signals all processes of a service. This one must last until the service has
  // ended.
  for (const int ignored : {SIGHUP, SIGINT, SIGTERM}) signal(ignored, SIG_IGN);
  // libldap reads a file of the current directory, ldaprc, which any user may have put there.
  if (chdir("/") != 0) return 1;
  dafs::auth::DropRights();
  return dafs::auth::Serve(*std::move(options));
}
