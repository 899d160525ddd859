// A process that sends the notifications which may wait in the kernel for a lock or a page. The
// holder of the lock may wait for an answer of mount.dafs. If mount.dafs is killed then, a thread
// of its own that waited so would not end: the process would keep its connections to the server,
// and its guardian would not learn of the kill. This process has nothing but /dev/fuse.
//
// Each thread of mount.dafs that notifies has a socket. It writes the notification there instead of
// to /dev/fuse, and waits for one byte: whether the kernel has taken it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

// The only argument of mount.dafs as this process.
inline constexpr char kNotificationRelayFlag[] = "--notification-relay";

class NotificationRelay {
 public:
  // Starts the process, which is this program, for the connection of `device`.
  static absl::StatusOr<std::unique_ptr<NotificationRelay>> Start(int device);
  // `control`: the other end is that of RunNotificationRelay in process `pid`.
  NotificationRelay(UniqueFd control, int device, int pid);
  // The process ends. If a thread of it still waits in the kernel, it ends after that; nothing
  // waits for it.
  ~NotificationRelay();
  NotificationRelay(const NotificationRelay&) = delete;
  NotificationRelay& operator=(const NotificationRelay&) = delete;

  // The socket of one more thread, for a KernelChannel. Not valid: the process has ended. From any
  // thread.
  UniqueFd Connect();

 private:
  UniqueFd control_;
  const int pid_;
};

// The whole life of the process, until the other end of `control` is closed. The first message has
// /dev/fuse, each further one the socket of a thread.
void RunNotificationRelay(UniqueFd control);

}  // namespace dafs::fuse
