// Messages with file descriptors over a Unix socket that keeps messages apart (SOCK_SEQPACKET,
// SCM_RIGHTS).
// Any thread; a socket is used by one at a time. Both block while the socket does.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/files/unique_fd.h"

namespace dafs {

inline constexpr size_t kMostPassedDescriptors = 32;

// Sends `message` with copies of `fds`, at most kMostPassedDescriptors. False: the peer has ended,
// or the message is too large.
bool SendDescriptors(int socket, std::span<const char> message, std::span<const int> fds);
// Returns the bytes that were received in `into`, and appends the descriptors, which are
// close-on-exec. nullopt: the peer has ended, or the message was cut off.
std::optional<size_t> ReceiveDescriptors(int socket, std::span<char> into,
                                         std::vector<UniqueFd>* fds);

}  // namespace dafs
