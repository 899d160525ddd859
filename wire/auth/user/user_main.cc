// dafs-gss-user UID: makes the Kerberos tokens of one exchange with the tickets of user UID, for a
// mount with sec=krb5 (user_initiator.h). Its standard input is the socket. Ends when the socket is
// closed, after an error, or after a minute.
#include <grp.h>
#include <linux/keyctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "wire/auth/gss/kerberos.h"
#include "wire/auth/user/helper_message.h"

namespace dafs::auth {
namespace {

constexpr gid_t kNoGroup = 65534;  // a cache belongs to its user; groups give no right to it
constexpr unsigned kMostSeconds = 60;

std::optional<uid_t> UserOf(int count, char** words) {
  uid_t uid = 0;
  if (count != 2) return std::nullopt;
  const std::string_view word = words[1];
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), uid);
  if (error != std::errc() || end != word.data() + word.size() || uid == static_cast<uid_t>(-1)) {
    return std::nullopt;
  }
  return uid;
}

// Becomes the user, for good. False: this process has rights that are not the user's.
bool Become(uid_t uid) {
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);  // not that of root
  if (geteuid() == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(kNoGroup, kNoGroup, kNoGroup) != 0 ||
        setresuid(uid, uid, uid) != 0) {
      return false;
    }
  }
  uid_t real = 0, effective = 0, saved = 0;
  if (getresuid(&real, &effective, &saved) != 0 || real != uid || effective != uid ||
      saved != uid) {
    return false;
  }
  if (uid != 0 && setuid(0) == 0) return false;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

// An empty reply: the client has closed the socket.
std::string Receive() {
  std::string bytes(kMostHelperMessageBytes + 1, '\0');
  ssize_t got = -1;
  do {
    got = recv(STDIN_FILENO, bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return bytes;
}

HelperReply Answer(Exchange& exchange, const std::string& token) {
  HelperReply reply;
  reply.progress = exchange.Step(token, &reply.token);
  reply.peer_name = exchange.peer_name();
  reply.lifetime = exchange.lifetime();
  reply.major_status = exchange.major_status();
  reply.minor_status = exchange.minor_status();
  if (reply.token.size() > kMostTokenBytes) {
    reply.token.clear();
    reply.progress = absl::FailedPreconditionError("Kerberos: the ticket is too large");
  }
  return reply;
}

bool Send(const HelperReply& reply) {
  const std::string bytes = Encode(reply);
  return send(STDIN_FILENO, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

int Serve() {
  std::unique_ptr<Initiator> initiator;
  std::unique_ptr<Exchange> exchange;
  for (std::string bytes = Receive(); !bytes.empty(); bytes = Receive()) {
    const std::optional<HelperRequest> request = DecodeHelperRequest(bytes);
    if (!request.has_value()) return 1;
    if (exchange == nullptr) {
      auto made = NewKerberosInitiator({.server_host = request->server_host, .keytab = ""});
      if (!made.ok()) return 1;
      initiator = *std::move(made);
      exchange = initiator->Begin(request->channel_binding);
    }
    const HelperReply reply = Answer(*exchange, request->token);
    if (!Send(reply) || !reply.progress.ok()) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace dafs::auth

int main(int count, char** words) {
  const std::optional<uid_t> uid = dafs::auth::UserOf(count, words);
  if (!uid.has_value()) return 2;
  const rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &no_core);  // it would hold keys
  alarm(dafs::auth::kMostSeconds);
  if (!dafs::auth::Become(*uid)) return 1;
  return dafs::auth::Serve();
}
