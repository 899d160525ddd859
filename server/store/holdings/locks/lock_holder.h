// The owner of a lock that outlives the process: the same over restarts of the server, and another
// one for each instance of a client. A value.
#pragma once

#include <string>
#include <utility>

#include "wire/protocol/types.h"

namespace dafs::server {

struct LockHolder {
  std::string client_name;  // client_id_string
  wire::Verifier verifier;  // of the instance of the client
  std::string owner;        // as OPEN named it

  friend bool operator==(const LockHolder&, const LockHolder&) = default;
};

}  // namespace dafs::server
