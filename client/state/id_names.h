// The interface to lookups of names such as "name@domain", which a server sends for users and
// groups, and of the numbers that they have on this machine. auth::IdMap makes them for a mount.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "wire/auth/idmap/id_map.h"

namespace dafs::client {

// Thread-safe. Nothing blocks.
class IdNames {
 public:
  virtual ~IdNames() = default;

  // The answers that are kept; nullopt: ask. kNotFound: there is none. Other codes: the lookup
  // failed, with the reason.
  virtual std::optional<absl::StatusOr<uint32_t>> KeptId(auth::IdKind kind,
                                                         std::string_view name) const = 0;
  virtual std::optional<absl::StatusOr<std::string>> KeptName(auth::IdKind kind,
                                                              uint32_t id) const = 0;
  // Looks the answer up and keeps it, then calls `done` once: on any thread, or before this
  // returns. `done` does not block.
  virtual void AskId(auth::IdKind kind, std::string_view name, std::function<void()> done) = 0;
  virtual void AskName(auth::IdKind kind, uint32_t id, std::function<void()> done) = 0;
};

}  // namespace dafs::client
