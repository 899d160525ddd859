#include "fuse/modules/tls_module.h"

#include "fuse/modules/module.h"
#include "runtime/status_macros.h"
#include "wire/dat/tls/module.h"

namespace dafs::fuse {

absl::StatusOr<std::shared_ptr<dat::TlsContext>> NewTlsFromModule(const dat::TlsOptions& options) {
  ASSIGN_OR_RETURN(void* const entry, LoadModule({.file = "dafs-tls.so",
                                                  .version = dat::kTlsModuleVersion,
                                                  .entry = dat::kTlsModuleEntry,
                                                  .purpose = "TLS"}));
  absl::StatusOr<std::shared_ptr<dat::TlsContext>> made = absl::UnknownError("");
  reinterpret_cast<dat::TlsModuleEntry>(entry)(options, &made);
  return made;
}

}  // namespace dafs::fuse
