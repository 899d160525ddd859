// The identity that a client authenticated as.
// Spec: 3.1.1.3.
#pragma once

#include "server/store/objects/export.h"
#include "wire/protocol/constants.h"

namespace dafs::server {

struct Principal {
  wire::AuthType method = wire::AuthType::kNone;
  PeerAddress host;
  friend bool operator==(const Principal&, const Principal&) = default;
};

}  // namespace dafs::server
