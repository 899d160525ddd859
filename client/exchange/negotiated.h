// The values that client and server agreed on for a session. Spec: WIRE 11.3.
// A value.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/messages/server_identity.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/header.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct Negotiated {
  wire::SessionId session_id;
  wire::ClientId client_id;
  wire::ByteOrder order = wire::ByteOrder::kLittle;
  wire::AuthType auth = wire::AuthType::kNone;
  bool trusted = false;               // may register credentials (3.1.1.1.2)
  bool checksums = false;             // on messages after the agreement (WIRE 6)
  bool response_cache = false;        // the server caches responses to changes (5.2)
  bool rdma_read_channel = false;     // direct writes need an RDMA-read Channel
  bool back_control_channel = false;  // the session has a Back-control Channel
  bool attributes_after = false;      // responses may carry attributes (WIRE 9.8)
  uint64_t extensions = 0;            // wire::kExtension... flags that the server granted
  // Which server this is; nullopt: it does not say (WIRE 9.5).
  std::optional<wire::ServerIdentityRes> identity;
  uint32_t max_credentials = 0;
  uint32_t max_request_size = wire::kFirstReceiveBytes;  // until the agreement (3.2.6.3)
  uint32_t max_response_size = 0;
  uint32_t max_requests = 0;
};

}  // namespace dafs::client
