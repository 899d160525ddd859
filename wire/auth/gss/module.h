// The entry of the module dafs-gss.so. Both sides must be of one version, which a symbol names.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "wire/auth/gss/kerberos.h"

namespace dafs::auth {

inline constexpr char kGssModuleEntry[] = "dafs_new_initiator";
inline constexpr char kGssModuleVersion[] = "dafs_gss_version";  // const char[]: DAFS_VERSION
using GssModuleEntry = void (*)(const InitiatorOptions&,
                                absl::StatusOr<std::unique_ptr<Initiator>>*);

}  // namespace dafs::auth
