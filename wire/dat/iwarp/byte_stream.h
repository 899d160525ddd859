// The byte stream below MPA: a TCP socket, or TLS on one. A value that borrows both. Its functions
// are inline, so that a connection without TLS costs one comparison for each system call.
// Not thread-safe; nothing blocks.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "wire/dat/tls.h"

namespace dafs::dat::iwarp {

struct ByteStream {
  int fd = -1;
  TlsStream* tls = nullptr;  // null: none

  // As sendmsg(2): returns the bytes taken, or -1 with errno. EAGAIN: the socket is full.
  ssize_t Send(std::span<iovec> from) const {
    constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
    if (tls != nullptr) [[unlikely]] {
      return tls->Send(from);
    }
    msghdr message = {};
    message.msg_iov = from.data();
    message.msg_iovlen = from.size();
    ssize_t sent = 0;
    do {
      // send has less overhead than sendmsg.
      sent = from.size() == 1 ? send(fd, from[0].iov_base, from[0].iov_len, kFlags)
                              : sendmsg(fd, &message, kFlags);
    } while (sent < 0 && errno == EINTR);
    return sent;
  }

  // As recvmsg(2). Fewer bytes than `into` has: no more have arrived. 0: the peer ended its stream.
  ssize_t Receive(std::span<iovec> into) const {
    if (tls != nullptr) [[unlikely]] {
      return tls->Receive(into);
    }
    msghdr message = {};
    message.msg_iov = into.data();
    message.msg_iovlen = into.size();
    ssize_t got = 0;
    do {
      got = into.size() == 1 ? recv(fd, into[0].iov_base, into[0].iov_len, MSG_DONTWAIT)
                             : recvmsg(fd, &message, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got;
  }

  // TLS only: bytes that were taken and not sent yet. Flush returns true if none is left.
  bool has_output() const { return tls != nullptr && tls->has_output(); }
  bool Flush() const { return tls == nullptr || tls->Flush(); }
  // Whether Receive may return bytes although the socket is not readable.
  bool may_have_input() const { return tls != nullptr && tls->may_have_input(); }
  // Ends the stream of this side. Returns false if that waits for the socket: call again.
  bool CloseOurHalf() const {
    if (tls != nullptr && !tls->Close()) return false;
    shutdown(fd, SHUT_WR);
    return true;
  }
  // Why Send or Receive has just failed, from errno. `what` names the call.
  absl::Status Error(absl::string_view what) const {
    if (tls != nullptr && !tls->error().ok()) return tls->error();
    return absl::UnavailableError(absl::ErrnoToStatus(errno, what).message());
  }
};

inline bool IsWaiting(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace dafs::dat::iwarp
