#include "wire/dat/tls/module.h"

#include "wire/dat/tls/openssl_tls.h"

#pragma GCC visibility push(default)
extern "C" {

extern const char dafs_tls_version[];
const char dafs_tls_version[] = DAFS_VERSION;

// Not called by C: the linkage only makes its name plain.
void dafs_new_tls(const dafs::dat::TlsOptions& options,
                  absl::StatusOr<std::shared_ptr<dafs::dat::TlsContext>>* made) {
  *made = dafs::dat::NewTls(options);
}

}  // extern "C"
#pragma GCC visibility pop
