#include "runtime/sockets/control_socket.h"

#include <grp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "runtime/status_macros.h"
#include "runtime/text.h"

namespace dafs {
namespace {

constexpr size_t kLongestAnswer = size_t{16} << 20;
constexpr char kGroup[] = "dafs";
constexpr absl::string_view kError = "error: ";
// Pause after a failure to accept (no descriptors, say), which would otherwise repeat at once.
constexpr absl::Duration kRest = absl::Milliseconds(200);
constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};  // of AskControlSocket

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

// Connects, and sets time limits. On failure errno has the reason.
UniqueFd Connect(const sockaddr_un& address) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return fd;
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  const int error = errno;
  fd.Close();
  errno = error;
  return fd;
}

std::string ErrorLine(absl::string_view why) { return absl::StrCat(kError, why, "\n"); }

}  // namespace

struct ControlSocket::Peer {
  UniqueFd fd;
  uid_t uid = 0;
  absl::Time deadline;
  std::string request;
  std::string answer;
  size_t sent = 0;  // bytes of the answer
  bool is_answered = false;
};

absl::StatusOr<std::unique_ptr<ControlSocket>> ControlSocket::Create(Options options,
                                                                     Answerer answerer) {
  auto made = absl::WrapUnique(new ControlSocket(std::move(options), std::move(answerer)));
  RETURN_IF_ERROR(made->Listen());
  return made;
}

ControlSocket::ControlSocket(Options options, Answerer answerer)
    : options_(std::move(options)), answerer_(std::move(answerer)) {}

absl::Status ControlSocket::Listen() {
  const std::string& path = options_.path;
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const std::string directory = path.substr(0, path.rfind('/'));
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return Errno(directory);
  if (options_.keeps_other) {
    // EAGAIN: it runs, but answers too slowly.
    if (Connect(address).valid() || errno == EAGAIN) {
      return absl::AlreadyExistsError(absl::StrCat(path, ": another process answers on it"));
    }
  }
  listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  poll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  timer_ = UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!listener_.valid() || !poll_.valid() || !timer_.valid()) return Errno(path);
  unlink(path.c_str());
  // bind(2) makes the file with the mode of the descriptor, so that it never has a wider one.
  const mode_t mode = options_.group != 0 ? 0660 : 0600;
  if (fchmod(listener_.get(), mode) != 0 ||
      bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Errno(path);
  }
  struct stat made;
  if (lstat(path.c_str(), &made) != 0) return Errno(path);
  inode_ = made.st_ino;
  // The umask may have taken away what the group needs to connect.
  if (options_.group != 0 && (lchown(path.c_str(), static_cast<uid_t>(-1), options_.group) != 0 ||
                              chmod(path.c_str(), mode) != 0)) {
    return Errno(path);
  }
  epoll_event of_listener = {.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_event of_timer = {.events = EPOLLIN, .data = {.ptr = this}};
  if (listen(listener_.get(), kMostPeers) != 0 ||
      epoll_ctl(poll_.get(), EPOLL_CTL_ADD, listener_.get(), &of_listener) != 0 ||
      epoll_ctl(poll_.get(), EPOLL_CTL_ADD, timer_.get(), &of_timer) != 0) {
    return Errno(path);
  }
  return absl::OkStatus();
}

ControlSocket::~ControlSocket() {
  struct stat now;
  if (inode_ != 0 && lstat(options_.path.c_str(), &now) == 0 && now.st_ino == inode_) {
    unlink(options_.path.c_str());
  }
}

WaitHandle ControlSocket::Arm() { return {poll_.get(), EPOLLIN}; }

bool ControlSocket::Poll() {
  epoll_event events[kMostPeers + 2];
  const int count = epoll_wait(poll_.get(), events, static_cast<int>(std::size(events)), 0);
  bool is_late = false;
  for (int i = 0; i < count; ++i) {
    void* const source = events[i].data.ptr;
    if (source == nullptr) {
      Accept();
    } else if (source == this) {
      is_late = true;
    } else if (auto* const peer = static_cast<Peer*>(source); !Serve(*peer)) {
      std::erase_if(peers_, [peer](const auto& each) { return each.get() == peer; });
    }
  }
  // Last, because it removes peers that `events` may name.
  if (is_late) EndLate();
  return count > 0;
}

void ControlSocket::Accept() {
  // One more than can be served: the next Poll accepts the others.
  for (size_t i = 0; i <= kMostPeers; ++i) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      Add(std::move(fd));
      continue;
    }
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
    rests_ = true;
    epoll_ctl(poll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
    return SetTimer();
  }
}

void ControlSocket::Add(UniqueFd fd) {
  ucred who = {};
  socklen_t size = sizeof(who);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
  if (peers_.size() >= kMostPeers) {
    const std::string refusal =
        ErrorLine(absl::StrCat(kMostPeers, " requests are being answered; ask again later"));
    [[maybe_unused]] const ssize_t sent =
        send(fd.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL);
    return;
  }
  auto peer = std::make_unique<Peer>();
  epoll_event event = {.events = EPOLLIN, .data = {.ptr = peer.get()}};
  if (epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return;
  peer->fd = std::move(fd);
  peer->uid = who.uid;
  peer->deadline = Loop::Now() + options_.time_limit;
  peers_.push_back(std::move(peer));
  if (peers_.size() == 1) SetTimer();
}

bool ControlSocket::Serve(Peer& peer) {
  if (!peer.is_answered && !Receive(peer)) return false;
  if (!peer.is_answered) return true;
  if (!Send(peer)) return false;
  epoll_event event = {.events = EPOLLOUT, .data = {.ptr = &peer}};
  return epoll_ctl(poll_.get(), EPOLL_CTL_MOD, peer.fd.get(), &event) == 0;
}

bool ControlSocket::Receive(Peer& peer) {
  char some[kLongestRequest + 1];
  const ssize_t got = recv(peer.fd.get(), some, sizeof(some), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  peer.request.append(some, static_cast<size_t>(got));
  const size_t end = peer.request.find('\n');
  const size_t length = std::min(end, peer.request.size());
  if (length > kLongestRequest) {
    peer.answer = ErrorLine(absl::StrCat("the request is longer than ", kLongestRequest, " bytes"));
  } else if (end != std::string::npos || (got == 0 && length > 0)) {
    peer.answer = AnswerTo(peer, std::string_view(peer.request).substr(0, length));
  } else {
    return got > 0;
  }
  peer.is_answered = true;
  return true;
}

std::string ControlSocket::AnswerTo(const Peer& peer, std::string_view line) {
  absl::StatusOr<std::string> answer = answerer_({.text = line, .uid = peer.uid});
  return answer.ok() ? *std::move(answer) : ErrorLine(answer.status().message());
}

bool ControlSocket::Send(Peer& peer) {
  while (peer.sent < peer.answer.size()) {
    const ssize_t sent = send(peer.fd.get(), peer.answer.data() + peer.sent,
                              peer.answer.size() - peer.sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    peer.sent += static_cast<size_t>(sent);
  }
  return false;
}

void ControlSocket::EndLate() {
  uint64_t expirations = 0;
  [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof(expirations));
  if (std::exchange(rests_, false)) {
    epoll_event event = {.events = EPOLLIN, .data = {.ptr = nullptr}};
    epoll_ctl(poll_.get(), EPOLL_CTL_ADD, listener_.get(), &event);
  }
  const absl::Time now = Loop::Now();
  std::erase_if(peers_, [now](const auto& peer) { return peer->deadline <= now; });
  SetTimer();
}

void ControlSocket::SetTimer() {
  absl::Duration delay = rests_ ? kRest : absl::InfiniteDuration();
  if (!peers_.empty()) delay = std::min(delay, peers_.front()->deadline - Loop::Now());
  itimerspec when = {};  // zero: never
  if (delay != absl::InfiniteDuration()) {
    when.it_value = absl::ToTimespec(std::max(delay, absl::Microseconds(1)));
  }
  timerfd_settime(timer_.get(), 0, &when, nullptr);
}

gid_t ControlGroup() {
  if (geteuid() != 0) return 0;
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

void OpenToControlGroup(const std::string& directory) {
  const gid_t group = ControlGroup();
  if (group == 0) return;
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return;
  struct stat now;
  if (lstat(directory.c_str(), &now) != 0 || !S_ISDIR(now.st_mode)) return;
  if (now.st_uid != geteuid() || (now.st_mode & 0777) != 0700) return;
  if (lchown(directory.c_str(), static_cast<uid_t>(-1), group) == 0) {
    static_cast<void>(chmod(directory.c_str(), 0750));
  }
}

absl::StatusOr<std::string> AskControlSocket(const std::string& path, std::string_view request,
                                             std::string_view program) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const auto silent = [program] {
    return absl::DeadlineExceededError(
        absl::StrCat(Text(program), " does not answer requests within 5 s"));
  };
  const UniqueFd fd = Connect(address);
  if (!fd.valid()) {
    return errno == EAGAIN ? silent() : Errno(absl::StrCat("cannot connect to ", path));
  }
  std::string line = absl::StrCat(Text(request), "\n");
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t more = send(fd.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) break;  // its answer may have arrived
    sent += static_cast<size_t>(more);
  }
  std::string answer;
  char some[4096];
  while (answer.size() < kLongestAnswer) {
    const ssize_t got = recv(fd.get(), some, sizeof(some), 0);
    if (got <= 0) break;
    answer.append(some, static_cast<size_t>(got));
  }
  if (answer.empty()) return silent();
  absl::string_view why = answer;
  if (!absl::ConsumePrefix(&why, kError)) return answer;
  absl::ConsumeSuffix(&why, "\n");
  return absl::FailedPreconditionError(why);
}

}  // namespace dafs
