// The use of an open until its close, for the audit log.
// A value.
#pragma once

#include <cstdint>

#include "server/store/objects/handle.h"

namespace dafs::server {

struct OpenUse {
  ObjectKey key;
  uint64_t read_bytes = 0;     // by READ, and as the source of COPY_RANGE
  uint64_t written_bytes = 0;  // by WRITE, APPEND and COPY_RANGE
};

}  // namespace dafs::server
