// Names of calls in the errors of libdafs: "files1:/data: rename a: lookup: no such file (...)".
// Any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/files.h"
#include "wire/protocol/status.h"

namespace dafs::client {

// `status`, with the server, the export and `call` ("mkdir", "a/b") before its message.
inline absl::Status NameCall(Files& files, std::string_view call, std::string_view path,
                             const absl::Status& status) {
  if (status.ok()) return status;
  std::string name = files.client().options().server_name;
  name.append(": ").append(call);
  if (!path.empty()) name.append(" ").append(path);
  return wire::Prefixed(status, name.append(": "));
}
template <class T>
absl::StatusOr<T> NameCall(Files& files, std::string_view call, std::string_view path,
                           absl::StatusOr<T> result) {
  if (!result.ok()) return NameCall(files, call, path, result.status());
  return result;
}

}  // namespace dafs::client
