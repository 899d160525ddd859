#include "server/session/connection/terms.h"

#include <algorithm>

#include "wire/protocol/inline_offset.h"

namespace dafs::server {
namespace {

constexpr uint32_t kLeastMessage = 1024;  // WIRE 11.3
constexpr uint32_t kLeastWritePosition = wire::EndOfArgs(wire::Proc::kWriteInline);

// WIRE 11.3: a multiple of 8, at least 1024, at most the requested size rounded down to 8.
uint32_t MessageSize(uint32_t asked, uint32_t by_default, uint32_t most) {
  const uint32_t wanted = asked == 0 ? by_default : asked;
  return std::max(std::min(wanted, most) / 8 * 8, kLeastMessage);
}

// Returns the position of padded write data. 0 if the client states no preference, because padding
// saves the server nothing.
uint32_t WritePosition(uint32_t asked, uint32_t max_request_size) {
  if (asked == 0) return 0;
  return std::clamp(asked / 8 * 8, kLeastWritePosition, max_request_size);
}

// Spec gap: 3.1.2.3.5: the server can do direct I/O on both channels, so the client's request
// decides, unless the administrator's option does.
bool GrantsReadChannel(RdmaReadChannel option, bool asked) {
  switch (option) {
    case RdmaReadChannel::kNever:
      return false;
    case RdmaReadChannel::kOffered:
      return asked;
    case RdmaReadChannel::kRequired:
      return true;
  }
  return false;
}

}  // namespace

wire::ClientConnectRes Negotiate(const ServerOptions& options,
                                 const wire::ClientConnectArgs& args) {
  const uint32_t by_default = options.default_message_bytes;
  const uint32_t most = options.max_message_bytes;
  wire::ClientConnectRes res;
  res.use_checksums = args.use_checksums;
  res.max_request_size = MessageSize(args.max_request_size, by_default, most);
  res.max_response_size = MessageSize(args.max_response_size, by_default, most);
  res.inline_write_header_size = WritePosition(args.inline_write_header_size, res.max_request_size);
  res.use_rdma_read_channel =
      GrantsReadChannel(options.rdma_read_channel, args.use_rdma_read_channel);
  res.use_back_control_channel = args.use_back_control_channel;
  return res;
}

}  // namespace dafs::server
