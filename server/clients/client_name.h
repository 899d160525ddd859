// How a client is named in the log: by what of its client_id_string a reader can use.
// Pure function; any thread.
#pragma once

#include <string>
#include <string_view>

namespace dafs::server {

// mount.dafs sends "HOST:MOUNT POINT/TAG", TAG being 32 hexadecimal digits that tell nothing:
// they are left out. Any other string is shown as it is. At most 80 bytes, and what is not
// printable is escaped, for a client may put any bytes into its name.
std::string ClientName(std::string_view client_id_string);

}  // namespace dafs::server
