// The Unix socket over which dafsctl queries a mount. The peer sends a line with a question
// ("status", "stats", "json" or "options") and receives the answer as text until end of file.
// A Pollable of the lease keeper's loop. Poll answers one question. It may block as long as the
// answerer does, plus a fifth of a second for a slow peer.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "runtime/loop.h"

namespace dafs::client {

class StatusSocket final : public Pollable {
 public:
  using Answerer = absl::AnyInvocable<std::string(std::string_view question)>;

  // Makes the directory of `path` with mode 0700 if it is missing. Makes the socket, and replaces
  // one that a killed program left.
  static absl::StatusOr<std::unique_ptr<StatusSocket>> Create(const std::string& path,
                                                              Answerer answerer);
  ~StatusSocket() override;  // removes the socket

  bool Poll() override;
  WaitHandle Arm() override;

 private:
  StatusSocket(std::string path, int fd, Answerer answerer);
  const std::string path_;
  const int fd_;
  Answerer answerer_;
};

// The client side: asks the mount whose socket is `path`. kNotFound: there is no socket.
// kPermissionDenied. kUnavailable: its process has ended. kDeadlineExceeded: no answer arrived.
absl::StatusOr<std::string> AskStatus(const std::string& path, std::string_view question);

}  // namespace dafs::client
