// Loads TLS from the module dafs-tls.so when a mount needs it. OpenSSL's shared libraries take more
// memory than half of an idle mount, so mounts without TLS do not link them.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "wire/dat/tls.h"

namespace dafs::fuse {

// As dat::NewTls. Errors of the module: those of LoadModule.
absl::StatusOr<std::shared_ptr<dat::TlsContext>> NewTlsFromModule(const dat::TlsOptions& options);

}  // namespace dafs::fuse
