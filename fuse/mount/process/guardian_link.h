// The socket between mount.dafs and its guardian (guardian.h), and its messages. The guardian stays
// while the program is replaced by later versions, so a message never changes its meaning.
//
// Belongs to the main thread. Blocks only where it says so.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

// In the environment of a successor: the number of the descriptor of its link.
inline constexpr char kGuardianVariable[] = "DAFS_GUARDIAN";

struct LinkMessage {
  enum Kind : char {
    kKeep = 'K',      // to the guardian: hold these descriptors. A later one replaces them
    kRecord = 'R',    // to the guardian: start the program `text` when this one has ended
    kServing = 'S',   // to the guardian: requests are read from now on, the record is not needed
    kEnd = 'E',       // to the guardian: a signal ends the mount
    kContinue = 'C',  // to a new program: the record, then what is held
    kSurvive = 'V',   // to the guardian: start the program `text` with this record and live record
                      // if this one is killed. A later one replaces it
    kKilled = 'X',    // to a new program: the record and the live record, then what is held
  };
  Kind kind = kKeep;
  std::string text;
  std::vector<UniqueFd> fds;
};

// False if the peer has ended.
bool SendMessage(int socket, LinkMessage::Kind kind, std::string_view text,
                 std::span<const int> fds);
// Blocks until there is one. nullopt: the peer has ended, or the message is none of these.
std::optional<LinkMessage> ReceiveMessage(int socket);

// The program's end.
class GuardianLink {
 public:
  // The descriptors that another program has left for this one.
  struct Inheritance {
    UniqueFd record;
    UniqueFd live;  // after a crash (fuse/cache/record/live_record.h); otherwise invalid
    UniqueFd lock;  // of the client id; may be invalid
    std::vector<UniqueFd> devices;  // in the order of the workers
  };

  GuardianLink() = default;  // there is no guardian
  explicit GuardianLink(UniqueFd socket) : socket_(std::move(socket)) {}

  // The link in the environment, which the guardian has left there; none if it is not a guardian's.
  static GuardianLink FromEnvironment();
  // Blocks until the guardian has sent it.
  absl::StatusOr<Inheritance> Receive();

  bool valid() const { return socket_.valid(); }
  // Whether the guardian runs.
  bool alive() const;
  // Each returns false if the guardian has ended.
  bool Keep(std::span<const int> devices, int lock);
  bool HandOver(int record, std::string_view program);
  bool Survive(int record, int live, std::string_view program);
  bool Serving();
  bool End();

 private:
  UniqueFd socket_;
};

}  // namespace dafs::fuse
