// TLS 1.3 by OpenSSL: makes the TlsContext (wire/dat/tls.h) of a client or a server. Thread-safe.
//
// Session tickets are off: each connection proves its certificates again, so that a removed CA or
// an expired certificate takes effect at the next connection. A handshake takes 3 ms.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "wire/dat/tls.h"

namespace dafs::dat {

// Reads the files. Errors: kInvalidArgument, with the file and the remedy.
absl::StatusOr<std::shared_ptr<TlsContext>> NewTls(const TlsOptions& options);

}  // namespace dafs::dat
