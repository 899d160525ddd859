// The name of this machine, from gethostname(2). Any thread; nothing blocks.
#pragma once

#include <unistd.h>

#include <string>

namespace dafs {

inline std::string HostName() {
  char name[65] = "";  // HOST_NAME_MAX and the end
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace dafs
