// The entry of the module dafs-tls.so. Both sides must be of one version, which the name of the
// entry carries.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "wire/dat/tls.h"

namespace dafs::dat {

inline constexpr char kTlsModuleEntry[] = "dafs_new_tls";
inline constexpr char kTlsModuleVersion[] = "dafs_tls_version";  // const char[]: DAFS_VERSION
using TlsModuleEntry = void (*)(const TlsOptions&, absl::StatusOr<std::shared_ptr<TlsContext>>*);

}  // namespace dafs::dat
