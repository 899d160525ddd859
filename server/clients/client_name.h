// The name of a client in the log and for the administrator, made from its client_id_string. Pure
// function; any thread.
#pragma once

#include <string>
#include <string_view>

namespace dafs::server {

// mount.dafs sends "HOST:MOUNT POINT/TAG". TAG is 32 hexadecimal digits without meaning to a
// reader, so it is omitted. Any other string is shown unchanged. Shows at most 80 bytes of the
// name. Escapes unprintable bytes, because a client may put any bytes into its name.
std::string ClientName(std::string_view client_id_string);

// The parts of such a name, escaped in the same way. Both are empty for any other string.
struct ClientPlace {
  std::string host;
  std::string mount_point;
};
ClientPlace ClientPlaceOf(std::string_view client_id_string);

}  // namespace dafs::server
