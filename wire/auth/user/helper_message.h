// The messages between a client and its helper dafs-gss-user (user_initiator.h): one packet each,
// over a socket of type SOCK_SEQPACKET. The helper runs as the user, so its messages are hostile.
// Values and pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "wire/auth/exchange.h"

namespace dafs::auth {

// A ticket with a PAC has at most 64 KiB.
inline constexpr size_t kMostTokenBytes = size_t{65} << 10;
inline constexpr size_t kMostTextBytes = 1024;
inline constexpr size_t kMostHelperMessageBytes = kMostTokenBytes + 4 * kMostTextBytes;

// For one step of the helper's exchange. The names are used by the first one only.
struct HelperRequest {
  std::string server_host;      // of the principal dafs/HOST
  std::string channel_binding;  // of Initiator::Begin
  std::string token;            // of the server
};

// The result of Exchange::Step, and what the exchange knows then.
struct HelperReply {
  absl::StatusOr<Exchange::Progress> progress = Exchange::Progress::kContinues;
  std::string token;  // for the server
  std::string peer_name;
  absl::Duration lifetime;  // whole seconds, or infinite
  uint32_t major_status = 0;
  uint32_t minor_status = 0;
};

std::string Encode(const HelperRequest& request);
std::string Encode(const HelperReply& reply);
// nullopt: not such a message.
std::optional<HelperRequest> DecodeHelperRequest(std::string_view bytes);
// As above. The error of a reply is one that Exchange::Step may return; its text is printable and
// bounded, since logs show it.
std::optional<HelperReply> DecodeHelperReply(std::string_view bytes);

}  // namespace dafs::auth
