#include "wire/auth/gss/module.h"

#pragma GCC visibility push(default)
extern "C" {

extern const char dafs_gss_version[];
const char dafs_gss_version[] = DAFS_VERSION;

// Not called by C: the linkage only makes its name plain.
void dafs_new_initiator(const dafs::auth::InitiatorOptions& options,
                        absl::StatusOr<std::unique_ptr<dafs::auth::Initiator>>* made) {
  *made = dafs::auth::NewKerberosInitiator(options);
}

}  // extern "C"
#pragma GCC visibility pop
