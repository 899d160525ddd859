// Which Kerberos principals an option of the administrator names: "alice@EXAMPLE.COM",
// "*@EXAMPLE.COM", "host/*.example.com@EXAMPLE.COM"; and which names a password may belong to.
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace dafs::server {

// Whether a principal fits a pattern. "*" stands for any characters but "/", "@" and "\\".
bool PrincipalFits(std::string_view pattern, std::string_view principal);
bool PrincipalFitsAny(const std::vector<std::string>& patterns, std::string_view principal);

// kInvalidArgument: it has no realm, or characters that no principal has.
absl::Status CheckPrincipalPattern(std::string_view pattern);

// 1 to 64 letters, digits and any of "-._": a name of --password-file. It has no '@', so it is no
// principal.
bool IsPasswordName(std::string_view name);

}  // namespace dafs::server
