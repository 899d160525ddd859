// A secret of this machine, made once. With it, another program cannot forge the client id of a
// mount. Called before the mount has threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace dafs::fuse {

using ClientSecret = std::array<uint8_t, 16>;

// Returns a new random secret.
ClientSecret RandomSecret();

// Returns the secret in `directory`/client-secret. Creates the file, and the directory, if they do
// not exist. Returns nullopt, and logs the reason, if the secret cannot be stored there or another
// user may know it.
std::optional<ClientSecret> KeptSecret(const std::string& directory);

}  // namespace dafs::fuse
