// Kerberos with the tickets of one user of this machine, for a client that runs as root. The
// program dafs-gss-user makes the tokens: one process for each exchange, which becomes the user
// before it opens a credentials cache. So every cache is opened with the rights of its user (FILE,
// KEYRING:persistent, KCM), and root parses nothing that a user has written except bounded messages
// (helper_message.h). The process inherits no descriptor but its socket, and no environment but
// KRB5_CONFIG and GSS_USE_PROXY.
// Thread-safe. The steps of an exchange block until the helper answers, kMostHelperWait at most.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "wire/auth/exchange.h"

namespace dafs::auth {

struct UserInitiatorOptions {
  std::string helper = {};       // the path of dafs-gss-user
  uint32_t uid = 0;              // another one than that of this process needs root
  std::string server_host = {};  // of the principal dafs/HOST
  std::string ccache = {};       // the credentials cache; empty: the user's default
};

// A key distribution centre that does not answer holds a helper no longer.
inline constexpr absl::Duration kMostHelperWait = absl::Seconds(30);

// Does not block. Errors of the steps are those of Exchange::Step. kFailedPrecondition: the user
// has no ticket (with auth::HaveExpired: an expired one), or there is no helper.
std::unique_ptr<Initiator> NewUserInitiator(const UserInitiatorOptions& options);

}  // namespace dafs::auth
