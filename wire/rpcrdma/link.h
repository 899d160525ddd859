// State that the parts of a connection share: the channel, the version in use and what is known of
// the peer. Belongs to Connection. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "wire/rpcrdma/channel.h"
#include "wire/rpcrdma/header.h"
#include "wire/rpcrdma/options.h"
#include "wire/rpcrdma/properties.h"

namespace dafs::rpcrdma {

// RFC 8166, 4.1: the inline threshold of version 1, which also bounds the first message of a
// connection (RPCRDMA2 8).
inline constexpr uint32_t kVersion1Inline = 1024;

struct Link {
  Options options;
  std::unique_ptr<Channel> channel;
  bool is_client = false;
  // The version of our messages. 0 at a server: the client has not spoken yet.
  uint32_t version = 0;
  // The client: the server has answered in this version. The server: the client has spoken in it.
  bool version_agreed = false;
  Properties own;   // as announced
  Properties peer;  // defaults until the peer announces others
  // Ends the connection and everything outstanding. Set by the Connection.
  absl::AnyInvocable<void(const absl::Status&)> fail;

  // Bytes of a message that the peer receives.
  uint32_t SendLimit() const {
    if (version != kVersion2 || !version_agreed) return kVersion1Inline;
    return std::min(peer.receive_size, channel->message_bytes());
  }
  // Bytes of a message that the peer sends us surely: it may go on assuming the defaults (6.3.1).
  uint32_t ReplyLimit() const {
    return version == kVersion2 && version_agreed ? kDefaultInline : kVersion1Inline;
  }
  void SendOrFail(const Header& header, std::span<const std::byte> payload,
                  std::optional<uint32_t> invalidate = std::nullopt, Channel::Done sent = nullptr) {
    const absl::Status status =
        channel->Send(EncodeHeader(header), payload, invalidate, std::move(sent));
    if (!status.ok()) fail(status);
  }
};

}  // namespace dafs::rpcrdma
