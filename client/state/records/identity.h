// The user on whose behalf a request is sent; a cred_handle names it to the server.
// Spec: 3.1.1.2 (credential registration), 6.2.8. A value; any thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace dafs::client {

// The numeric user, group and supplementary groups of a caller. Equal identities share one
// registered credential. The order of `groups` matters: it must be the same for the same process.
struct Identity {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;

  friend bool operator==(const Identity&, const Identity&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Identity& user) {
    return H::combine(std::move(h), user.uid, user.gid, user.groups);
  }
};

}  // namespace dafs::client
