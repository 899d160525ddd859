// Loads a module of this version, which a mount needs only with some options.
#pragma once

#include "absl/status/statusor.h"

namespace dafs::fuse {

struct ModuleNames {
  const char* file;     // "dafs-tls.so"
  const char* version;  // the symbol that names the version: const char[]
  const char* entry;    // the symbol that is returned
  const char* purpose;  // for messages: "TLS"
};

// Returns the address of the entry. The module stays loaded. It is found beside the program or
// where it is installed. kFailedPrecondition: there is none, or it is of another version.
absl::StatusOr<void*> LoadModule(const ModuleNames& names);

}  // namespace dafs::fuse
