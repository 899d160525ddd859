// The IdMap of a mount, as its clients use it: names of the server's ID-mapping domain and numbers
// of this machine. Spec: WIRE R90. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "client/state/id_names.h"
#include "fuse/options/options.h"
#include "wire/auth/idmap/id_map.h"

namespace dafs::fuse {

class MappedNames : public client::IdNames {
 public:
  // Starts no program until the first question.
  explicit MappedNames(auth::IdMapOptions options) : map_(std::move(options)) {}

  std::optional<absl::StatusOr<uint32_t>> KeptId(auth::IdKind kind,
                                                 std::string_view name) const override;
  std::optional<absl::StatusOr<std::string>> KeptName(auth::IdKind kind,
                                                      uint32_t id) const override;
  void AskId(auth::IdKind kind, std::string_view name, std::function<void()> done) override;
  void AskName(auth::IdKind kind, uint32_t id, std::function<void()> done) override;

 private:
  auth::IdMap map_;
};

// For a mount with these options. kFailedPrecondition: the helper program is not installed.
absl::StatusOr<std::shared_ptr<client::IdNames>> NewMappedNames(const Options& options);

}  // namespace dafs::fuse
