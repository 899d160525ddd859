// The Unix socket through which dafsctl asks a mount about itself: one line of a question
// ("status", "stats", "json" or "options"), the answer as text, end of file.
// A Pollable of the lease keeper's loop; a question is answered within its Poll, which may take as
// long as the answerer does and a fifth of a second for a peer that is slow.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "runtime/loop.h"

namespace dafs::client {

class StatusSocket final : public dat::Pollable {
 public:
  using Answerer = absl::AnyInvocable<std::string(std::string_view question)>;

  // Makes the directory of `path` with mode 0700 if it is missing, and the socket, in place of one
  // that a killed program left.
  static absl::StatusOr<std::unique_ptr<StatusSocket>> Create(const std::string& path,
                                                              Answerer answerer);
  ~StatusSocket() override;  // removes the socket

  bool Poll() override;
  dat::WaitHandle Arm() override;

 private:
  StatusSocket(std::string path, int fd, Answerer answerer);
  const std::string path_;
  const int fd_;
  Answerer answerer_;
};

// The other end: asks the mount whose socket is `path`. kNotFound: there is no socket;
// kPermissionDenied; kUnavailable: its process has ended; kDeadlineExceeded: no answer came.
absl::StatusOr<std::string> AskStatus(const std::string& path, std::string_view question);

}  // namespace dafs::client
