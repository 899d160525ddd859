// The names and passwords by which clients authenticate with DAFS_AUTH_TEXT (--password-file).
// Spec: 6.2.2.
//
// A line of the file is NAME:HASH, for a user of this machine with that name, or
// NAME:HASH:UID:GID[,GID ...]. HASH is one of crypt(5), of a method that is meant for new
// passwords. Empty lines and lines that begin with '#' are skipped. Other users must not be able to
// access the file. Functions without state; any thread. They block: on the file, on name services,
// and a hash is meant to take some 100 ms.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/clients/credentials.h"

namespace dafs::server {

// Returns OK if the file can be used. kFailedPrecondition: the message names the line and the
// remedy.
absl::Status CheckPasswordFile(const std::string& file);

// Reads the file, so that a change takes effect at once, and sets `*user` to the user whom `name`
// and `password` prove. kUnauthenticated: they prove none; the same time passes for a name that is
// not in the file. kFailedPrecondition: of the file. Messages have no password and no hash.
absl::Status CheckPassword(const std::string& file, std::string_view name,
                           std::string_view password, Credential* user);

}  // namespace dafs::server
