#include "client/status/status_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::client {
namespace {

constexpr size_t kLongestQuestion = 64;
constexpr size_t kLongestAnswer = size_t{16} << 20;

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too long for a socket"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

absl::Status Errno(const std::string& what) { return absl::ErrnoToStatus(errno, what); }

void SetTimeouts(int fd, timeval most) {
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
}

bool SendAll(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::string ReceiveAll(int fd, size_t most, bool one_line) {
  std::string text;
  char some[4096];
  while (text.size() < most) {
    ssize_t got = recv(fd, some, std::min(sizeof(some), most - text.size()), 0);
    if (got <= 0) break;
    text.append(some, static_cast<size_t>(got));
    if (one_line && text.find('\n') != std::string::npos) break;
  }
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StatusSocket>> StatusSocket::Create(const std::string& path,
                                                                   Answerer answerer) {
  ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  std::string directory = path.substr(0, path.rfind('/'));
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return Errno(directory);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Errno("socket");
  unlink(path.c_str());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(fd, 16) != 0) {
    absl::Status status = Errno(path);
    close(fd);
    return status;
  }
  return absl::WrapUnique(new StatusSocket(path, fd, std::move(answerer)));
}

StatusSocket::StatusSocket(std::string path, int fd, Answerer answerer)
    : path_(std::move(path)), fd_(fd), answerer_(std::move(answerer)) {}

StatusSocket::~StatusSocket() {
  unlink(path_.c_str());
  close(fd_);
}

bool StatusSocket::Poll() {
  int peer = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (peer < 0) return false;
  SetTimeouts(peer, {.tv_sec = 0, .tv_usec = 200000});
  std::string question = ReceiveAll(peer, kLongestQuestion, true);
  SendAll(peer, answerer_(std::string_view(question).substr(0, question.find('\n'))));
  close(peer);
  return true;
}

WaitHandle StatusSocket::Arm() { return {fd_, EPOLLIN}; }

absl::StatusOr<std::string> AskStatus(const std::string& path, std::string_view question) {
  ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Errno("socket");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    absl::Status status = Errno(absl::StrCat("cannot connect to ", path));
    close(fd);
    return status;
  }
  SetTimeouts(fd, {.tv_sec = 5, .tv_usec = 0});
  std::string line(question);
  SendAll(fd, line + "\n");
  std::string answer = ReceiveAll(fd, kLongestAnswer, false);
  close(fd);
  if (answer.empty()) {
    return absl::DeadlineExceededError("mount.dafs does not answer questions within 5 s");
  }
  return answer;
}

}  // namespace dafs::client
