#include "fuse/modules/gss_module.h"

#include "fuse/modules/module.h"
#include "runtime/status_macros.h"
#include "wire/auth/gss/module.h"

namespace dafs::fuse {

absl::StatusOr<std::unique_ptr<auth::Initiator>> NewInitiatorFromModule(
    const auth::InitiatorOptions& options) {
  ASSIGN_OR_RETURN(void* const entry, LoadModule({.file = "dafs-gss.so",
                                                  .version = auth::kGssModuleVersion,
                                                  .entry = auth::kGssModuleEntry,
                                                  .purpose = "Kerberos"}));
  absl::StatusOr<std::unique_ptr<auth::Initiator>> made = absl::UnknownError("");
  reinterpret_cast<auth::GssModuleEntry>(entry)(options, &made);
  return made;
}

}  // namespace dafs::fuse
