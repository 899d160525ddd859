#include "fuse/mount/process/guardian_link.h"

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

#include "runtime/sockets/descriptor_passing.h"

namespace dafs::fuse {
namespace {

// Of 16 workers, the records and the lock.
static_assert(kMostPassedDescriptors >= 19);
constexpr size_t kMostText = 4096;  // the name of a program
constexpr std::string_view kHasLock = "lock";

}  // namespace

bool SendMessage(int socket, LinkMessage::Kind kind, std::string_view text,
                 std::span<const int> fds) {
  std::string body(1, kind);
  body += text;
  return body.size() <= kMostText + 1 && SendDescriptors(socket, body, fds);
}

std::optional<LinkMessage> ReceiveMessage(int socket) {
  std::array<char, kMostText + 1> body;
  LinkMessage received;
  const std::optional<size_t> got = ReceiveDescriptors(socket, body, &received.fds);
  if (!got) return std::nullopt;
  received.kind = static_cast<LinkMessage::Kind>(body[0]);
  received.text.assign(body.data() + 1, *got - 1);
  return received;
}

GuardianLink GuardianLink::FromEnvironment() {
  const char* const text = std::getenv(kGuardianVariable);
  if (text == nullptr) return {};
  int fd = -1;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), fd);
  const bool is_number = error == std::errc() && *end == '\0' && fd > STDERR_FILENO;
  unsetenv(kGuardianVariable);
  ucred user = {};
  socklen_t size = sizeof(user);
  if (!is_number || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0 ||
      user.pid != getppid() || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
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
