// The name and password of a client that authenticates with DAFS_AUTH_TEXT (Auth::kText).
// Spec: 6.1.9, 6.2.2; FAST03 4 (callbacks of the application).
//
// Its exchange has one step, whose token is NAME NUL PASSWORD: the login puts the two into its
// request (client/session/login.h). Without TLS it makes none.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/auth/exchange.h"

namespace dafs::client {

struct NameAndPassword {
  std::string name;      // not empty, without NUL
  std::string password;  // without NUL
  NameAndPassword() = default;
  NameAndPassword(NameAndPassword&&) = default;
  NameAndPassword& operator=(NameAndPassword&&) = default;
  ~NameAndPassword();  // erases the password
};

// Reads username=NAME and password=PASSWORD, a line each, as mount.cifs(8) has them. Blocks.
// kFailedPrecondition: the file cannot be read, other users can access it, or it lacks one; the
// message names the remedy.
absl::StatusOr<NameAndPassword> ReadCredentialsFile(const std::string& file);

// `source` is called for each channel of a session, on any thread, and may block: so a program
// keeps no password, and a changed one is used by the next session.
std::shared_ptr<auth::Initiator> NewPasswordInitiator(
    std::function<absl::StatusOr<NameAndPassword>()> source);

}  // namespace dafs::client
