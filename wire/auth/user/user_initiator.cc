#include "wire/auth/user/user_initiator.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/files/unique_fd.h"
#include "runtime/helper_process.h"
#include "wire/auth/user/helper_message.h"

namespace dafs::auth {
namespace {

// The variables that the helper gets say where the realm is, and whether gssproxy is used.
std::vector<std::string> Environment(const std::string& ccache) {
  std::vector<std::string> all = PassedOn({"KRB5_CONFIG", "GSS_USE_PROXY"});
  if (!ccache.empty()) all.push_back(absl::StrCat("KRB5CCNAME=", ccache));
  return all;
}

// dafs-gss-user and the socket to it. HelperProcess kills it.
class UserHelper {
 public:
  absl::Status Start(const UserInitiatorOptions& options);
  // Sends a request, and waits for the reply.
  absl::StatusOr<HelperReply> Ask(const HelperRequest& request);

 private:
  HelperProcess process_;
  UniqueFd socket_;
};

absl::Status UserHelper::Start(const UserInitiatorOptions& options) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(absl::StrCat("Kerberos: socketpair: ", std::strerror(errno)));
  }
  socket_ = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  const absl::Status started =
      process_.Start({.path = options.helper,
                      .arguments = {"dafs-gss-user", std::to_string(options.uid)},
                      .environment = Environment(options.ccache),
                      .input = theirs.get()});
  if (started.ok()) return started;
  return absl::FailedPreconditionError(absl::StrCat("Kerberos: ", started.message()));
}

absl::StatusOr<HelperReply> UserHelper::Ask(const HelperRequest& request) {
  const std::string bytes = Encode(request);
  const absl::Time deadline = absl::Now() + kMostHelperWait;
  ssize_t sent = -1;
  do {
    sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  pollfd wait = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  int ready = 0;
  while (sent >= 0 && ready <= 0) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError("Kerberos: no ticket in time; is a KDC reachable?");
    }
    ready = poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready < 0 && errno != EINTR) break;
  }
  std::string reply(kMostHelperMessageBytes + 1, '\0');
  const ssize_t got =
      sent < 0 || ready < 0 ? -1 : recv(socket_.get(), reply.data(), reply.size(), 0);
  // MIT's library 1.20 may crash on a cache that the user may not read (krb5_cccol_have_content).
  if (got <= 0) {
    return absl::FailedPreconditionError(
        "Kerberos: dafs-gss-user has ended without a reply; may the user read the credentials "
        "cache?");
  }
  std::optional<HelperReply> decoded =
      DecodeHelperReply(std::string_view(reply).substr(0, static_cast<size_t>(got)));
  if (!decoded.has_value()) {
    return absl::FailedPreconditionError("Kerberos: dafs-gss-user has sent no valid reply");
  }
  return *std::move(decoded);
}

class UserExchange final : public Exchange {
 public:
  UserExchange(const UserInitiatorOptions& options, const std::string& channel_binding)
      : options_(options), channel_binding_(channel_binding) {}

  absl::StatusOr<Progress> Step(std::string_view token, std::string* answer) override {
    answer->clear();
    if (token.size() > kMostTokenBytes) {
      return absl::UnauthenticatedError("Kerberos: the server's token is too large");
    }
    if (!std::exchange(is_started_, true)) {
      if (absl::Status status = helper_.Start(options_); !status.ok()) return status;
    }
    absl::StatusOr<HelperReply> reply = helper_.Ask({.server_host = options_.server_host,
                                                     .channel_binding = channel_binding_,
                                                     .token = std::string(token)});
    if (!reply.ok()) return reply.status();
    reply_ = *std::move(reply);
    *answer = std::move(reply_.token);
    return reply_.progress;
  }

  const std::string& peer_name() const override { return reply_.peer_name; }
  const std::string& user() const override { return user_; }
  absl::Duration lifetime() const override { return reply_.lifetime; }
  uint32_t major_status() const override { return reply_.major_status; }
  uint32_t minor_status() const override { return reply_.minor_status; }

 private:
  const UserInitiatorOptions options_;
  const std::string channel_binding_;
  const std::string user_;  // none: of the acceptor only
  bool is_started_ = false;
  UserHelper helper_;
  HelperReply reply_;
};

class UserInitiator final : public Initiator {
 public:
  explicit UserInitiator(UserInitiatorOptions options) : options_(std::move(options)) {}
  std::unique_ptr<Exchange> Begin(const std::string& channel_binding) override {
    return std::make_unique<UserExchange>(options_, channel_binding);
  }

 private:
  const UserInitiatorOptions options_;
};

}  // namespace

std::unique_ptr<Initiator> NewUserInitiator(const UserInitiatorOptions& options) {
  return std::make_unique<UserInitiator>(options);
}

}  // namespace dafs::auth
