// Loads Kerberos from the module dafs-gss.so when a mount needs it, as fuse/modules/tls_module.h
// does for TLS.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "wire/auth/gss/kerberos.h"

namespace dafs::fuse {

// As auth::NewKerberosInitiator. Errors of the module: those of LoadModule.
absl::StatusOr<std::unique_ptr<auth::Initiator>> NewInitiatorFromModule(
    const auth::InitiatorOptions& options);

}  // namespace dafs::fuse
