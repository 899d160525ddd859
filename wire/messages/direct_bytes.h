// How much data the server moves by RDMA for one request. Both ends count it from the arguments and
// the result. Data of listings, symbolic links and attributes is not counted.
#pragma once

#include <cstdint>

#include "wire/messages/messages.h"
#include "wire/protocol/procedures.h"

namespace dafs::wire {

struct DirectBytes {
  uint64_t to_client = 0;
  uint64_t to_server = 0;
};

// For a request that was answered with OK.
template <class Args, class Res>
DirectBytes DirectBytesOf([[maybe_unused]] const Args& args, [[maybe_unused]] const Res& res) {
  if constexpr (Args::kProc == Proc::kReadDirect) {
    return {.to_client = res.bytes_read};
  } else if constexpr (Args::kProc == Proc::kWriteDirect) {
    return {.to_server = res.count};
  } else if constexpr (Args::kProc == Proc::kAppendDirect) {
    return {.to_server = args.write_data_buffer.buffer_byte_count};
  } else {
    return {};
  }
}

}  // namespace dafs::wire
