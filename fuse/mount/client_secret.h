// A secret of this machine, made once. It distinguishes the client ids of its mounts from those
// that another program could make up. Used before the mount has threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace dafs::fuse {

using ClientSecret = std::array<uint8_t, 16>;

// A new one.
ClientSecret RandomSecret();

// The one in `directory`/client-secret, which is made (with the directory) if there is none.
// Nothing: it cannot be kept there, or another user could know it, which is logged.
std::optional<ClientSecret> KeptSecret(const std::string& directory);

}  // namespace dafs::fuse
