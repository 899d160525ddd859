// The Unix socket over which dafsctl queries a program of this machine: a mount or dafsd. A peer
// sends one line with a request and receives the answer as text until end of file. The answer to a
// request that is refused is a line that begins with "error: ".
//
// A Pollable of the owner's loop. Nothing waits for a peer: a peer that is slow, sends too much or
// does not read delays no other one. Poll blocks as long as the answerer does.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/files/unique_fd.h"
#include "runtime/loop/loop.h"

namespace dafs {

class ControlSocket final : public Pollable {
 public:
  static constexpr size_t kLongestRequest = 4096;  // bytes, without the newline
  static constexpr size_t kMostPeers = 16;         // more are refused

  struct Request {
    std::string_view text;  // without the newline
    uid_t uid = 0;          // of the process that asks
  };
  // Returns the answer, or the reason why there is none.
  using Answerer = absl::AnyInvocable<absl::StatusOr<std::string>(const Request&)>;

  struct Options {
    // Makes its directory with mode 0700 if that is missing.
    std::string path;
    // May connect as well as the owner (mode 0660). 0: the owner only (mode 0600).
    gid_t group = 0;
    // Whether to fail with kAlreadyExists if another process answers on this path. A socket that a
    // killed program left is always replaced.
    bool keeps_other = false;
    // From the connection of a peer to the end of its answer.
    absl::Duration time_limit = absl::Seconds(5);
  };
  static absl::StatusOr<std::unique_ptr<ControlSocket>> Create(Options options, Answerer answerer);
  ~ControlSocket() override;  // ends the connections, and removes the socket if it is still ours
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  bool Poll() override;
  WaitHandle Arm() override;

 private:
  struct Peer;

  ControlSocket(Options options, Answerer answerer);
  absl::Status Listen();
  void Accept();
  void Add(UniqueFd fd);
  // Return false if the peer is to be removed.
  bool Serve(Peer& peer);
  bool Receive(Peer& peer);
  static bool Send(Peer& peer);
  std::string AnswerTo(const Peer& peer, std::string_view line);
  void EndLate();
  void SetTimer();

  const Options options_;
  Answerer answerer_;
  ino_t inode_ = 0;  // of the socket in its directory; 0: not made
  UniqueFd listener_;
  UniqueFd poll_;       // an epoll of the listener, the timer and all peers
  UniqueFd timer_;      // expires when the oldest peer is late, or accepting may be tried again
  bool rests_ = false;  // accepting has failed
  std::vector<std::unique_ptr<Peer>> peers_;  // the oldest first
};

// The group "dafs", whose members may query the programs of this machine. 0: there is no such
// group, or this process is not root's. Blocks on the name service.
gid_t ControlGroup();

// Lets that group enter `directory`, if it is this user's alone; makes it if it is missing. All
// programs of a machine share the directory /run/dafs. A failure shows when the group cannot
// connect.
void OpenToControlGroup(const std::string& directory);

// Asks the program that answers on `path`; `program` names it in messages. Blocks, at most 5 s for
// each of: connecting, sending, and each part of the answer. kNotFound: there is no socket.
// kPermissionDenied. kUnavailable: its process has ended. kDeadlineExceeded: no answer arrived.
// kFailedPrecondition: the request was refused; the message says why.
absl::StatusOr<std::string> AskControlSocket(const std::string& path, std::string_view request,
                                             std::string_view program = "mount.dafs");

}  // namespace dafs
