#include "fuse/kernel/notifications/notification_relay.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fuse/kernel/notifications/memory_pressure.h"
#include "runtime/sockets/descriptor_passing.h"

namespace dafs::fuse {
namespace {

// More than a notification with the longest name.
constexpr size_t kLongest = 4096;
// Each byte is answered with one, so messages do not gather.
constexpr std::byte kTaken{1};
constexpr std::byte kNotTaken{0};

bool SendDescriptor(int socket, int fd) {
  constexpr char kNothing[] = {0};
  return SendDescriptors(socket, kNothing, {&fd, 1});
}

// Not valid: the other end is closed.
UniqueFd ReceiveDescriptor(int socket) {
  char byte[1];
  std::vector<UniqueFd> fds;
  if (!ReceiveDescriptors(socket, byte, &fds) || fds.size() != 1) return UniqueFd();
  return std::move(fds.front());
}

// Until the other end is closed.
void Relay(int device, const UniqueFd& socket) {
  BecomeIoFlusher();
  std::array<std::byte, kLongest> message;
  for (;;) {
    const ssize_t size = recv(socket.get(), message.data(), message.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    ssize_t written = -1;
    do {
      written = write(device, message.data(), static_cast<size_t>(size));
    } while (written < 0 && errno == EINTR);
    const std::byte answer = written == size ? kTaken : kNotTaken;
    if (send(socket.get(), &answer, 1, MSG_NOSIGNAL) != 1) return;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<NotificationRelay>> NotificationRelay::Start(int device) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  UniqueFd near(ends[0]);
  const UniqueFd far(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, far.get(), STDIN_FILENO);
  // A reader of what the program prints does not wait for this process.
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_RDWR, 0);
  // It ends with mount.dafs, which signals to the group of the terminal end in order.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&blocked, number);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string name = "dafs-notifier";
  std::string flag = kNotificationRelayFlag;
  char* const words[] = {name.data(), flag.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, words, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, "/proc/self/exe");
  return std::make_unique<NotificationRelay>(std::move(near), device, pid);
}

// If that fails, the process ends.
NotificationRelay::NotificationRelay(UniqueFd control, int device, int pid)
    : control_(std::move(control)), pid_(pid) {
  if (!SendDescriptor(control_.get(), device)) control_.Close();
}

NotificationRelay::~NotificationRelay() {
  control_.Close();
  if (pid_ > 0) waitpid(pid_, nullptr, WNOHANG);
}

UniqueFd NotificationRelay::Connect() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return UniqueFd();
  UniqueFd near(ends[0]);
  const UniqueFd far(ends[1]);
  if (!SendDescriptor(control_.get(), far.get())) return UniqueFd();
  return near;
}

void RunNotificationRelay(UniqueFd control) {
  prctl(PR_SET_NAME, "dafs-notifier");
  // Shared with the threads, which may still write to it when this function ends.
  const auto device = std::make_shared<const UniqueFd>(ReceiveDescriptor(control.get()));
  if (!device->valid()) return;
  for (;;) {
    UniqueFd socket = ReceiveDescriptor(control.get());
    if (!socket.valid()) return;
    try {
      std::thread([device, socket = std::move(socket)] { Relay(device->get(), socket); }).detach();
    } catch (const std::system_error&) {  // the socket is closed, and its thread notifies itself
    }
  }
}

}  // namespace dafs::fuse
