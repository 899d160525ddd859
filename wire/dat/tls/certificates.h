// The files of one side: its certificate, private key and CAs, loaded into an SSL_CTX.
// Pure except for reading the files, which blocks on the disk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/dat/tls.h"
#include "wire/dat/tls/handles.h"

namespace dafs::dat::tls {

// Errors: kInvalidArgument, with the file and the remedy. A key that other users may access is one.
absl::StatusOr<ContextHandle> LoadContext(const TlsOptions& options);

// Changes when one of the files is replaced or written.
std::string StampOfFiles(const TlsOptions& options);

// The DNS names and addresses in `certificate`. `or_common_name`: its common name if it has none of
// these.
std::vector<std::string> NamesIn(const X509* certificate, bool or_common_name);

// Whether `name` is a numeric address, without the scope of IPv6.
bool IsNumericAddress(const std::string& name);

inline constexpr unsigned char kAlpn[] = {4, 'd', 'a', 'f', 's'};

}  // namespace dafs::dat::tls
