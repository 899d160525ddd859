#include "fuse/mount/guardian_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fuse/mount/guardian.h"

namespace dafs::fuse {
namespace {

constexpr size_t kMostFds = 32;     // 16 workers, the records and the lock
constexpr size_t kMostText = 4096;  // the name of a program
constexpr std::string_view kHasLock = "lock";

}  // namespace

bool SendMessage(int socket, LinkMessage::Kind kind, std::string_view text,
                 std::span<const int> fds) {
  std::string body(1, kind);
  body += text;
  if (body.size() > kMostText + 1 || fds.size() > kMostFds) return false;
  iovec part = {.iov_base = body.data(), .iov_len = body.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(body.size());
}

std::optional<LinkMessage> ReceiveMessage(int socket) {
  std::array<char, kMostText + 1> body;
  iovec part = {.iov_base = body.data(), .iov_len = body.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = -1;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  LinkMessage received;
  for (cmsghdr* rights = got < 0 ? nullptr : CMSG_FIRSTHDR(&message); rights != nullptr;
       rights = CMSG_NXTHDR(&message, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof(fd));
      received.fds.emplace_back(fd);
    }
  }
  if (got < 1 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return std::nullopt;
  received.kind = static_cast<LinkMessage::Kind>(body[0]);
  received.text.assign(body.data() + 1, static_cast<size_t>(got) - 1);
  return received;
}

GuardianLink GuardianLink::FromEnvironment() {
  const char* const text = std::getenv(kGuardianVariable);
  if (text == nullptr) return {};
  int fd = -1;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), fd);
  const bool is_number = error == std::errc() && *end == '\0' && fd > STDERR_FILENO;
  unsetenv(kGuardianVariable);
  ucred who = {};
  socklen_t size = sizeof(who);
  if (!is_number || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 ||
      who.pid != getppid() || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return {};
  }
  return GuardianLink(UniqueFd(fd));
}

absl::StatusOr<GuardianLink::Inheritance> GuardianLink::Receive() {
  std::optional<LinkMessage> message = ReceiveMessage(socket_.get());
  const bool killed = message.has_value() && message->kind == LinkMessage::kKilled;
  if (!message.has_value() || (!killed && message->kind != LinkMessage::kContinue) ||
      message->fds.size() < (killed ? 3 : 2)) {
    return absl::DataLossError("the guardian does not say which mount to continue");
  }
  Inheritance inheritance;
  auto next = message->fds.begin();
  inheritance.record = std::move(*next++);
  if (killed) inheritance.live = std::move(*next++);
  if (message->text == kHasLock && next != message->fds.end())
    inheritance.lock = std::move(*next++);
  std::move(next, message->fds.end(), std::back_inserter(inheritance.devices));
  return inheritance;
}

bool GuardianLink::alive() const {
  if (!valid()) return false;
  pollfd wait = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) == 0;
}

bool GuardianLink::Keep(std::span<const int> devices, int lock) {
  std::vector<int> fds;
  if (lock >= 0) fds.push_back(lock);
  fds.insert(fds.end(), devices.begin(), devices.end());
  return SendMessage(socket_.get(), LinkMessage::kKeep, lock >= 0 ? kHasLock : "", fds);
}

bool GuardianLink::HandOver(int record, std::string_view program) {
  const int fds[] = {record};
  return SendMessage(socket_.get(), LinkMessage::kRecord, program, fds);
}

bool GuardianLink::Survive(int record, int live, std::string_view program) {
  const int fds[] = {record, live};
  return SendMessage(socket_.get(), LinkMessage::kSurvive, program, fds);
}

bool GuardianLink::Serving() { return SendMessage(socket_.get(), LinkMessage::kServing, "", {}); }

bool GuardianLink::End() { return SendMessage(socket_.get(), LinkMessage::kEnd, "", {}); }

}  // namespace dafs::fuse
