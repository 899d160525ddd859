// Which Kerberos principals an option of the administrator names: "alice@EXAMPLE.COM",
// "*@EXAMPLE.COM", "host/*.example.com@EXAMPLE.COM". Pure functions; any thread.
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

}  // namespace dafs::server
