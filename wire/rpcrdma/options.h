// The limits of one end of a connection. A value.
#pragma once

#include <cstdint>

#include "wire/rpcrdma/properties.h"

namespace dafs::rpcrdma {

struct Options {
  uint32_t lowest_version = 1;
  uint32_t highest_version = 2;
  // Calls outstanding at the same time in one direction: that we make at most, and that we grant.
  uint32_t credits = 8;
  // Bytes of receives that we announce in version 2, and to which a peer may have that raised. All
  // receives have the second size, so the first can be raised at any time.
  uint32_t receive_size = kDefaultInline;
  uint32_t receive_capacity = 4 * kDefaultInline;
  // The largest RPC message that does not fit inline, and the most data in chunks of one call that
  // we answer.
  uint32_t long_bytes = 64 << 10;
  // Limits of the calls that we answer.
  uint32_t max_read_chunks = 2;
  uint32_t max_write_chunks = 2;
  uint32_t max_segments = 8;  // of each chunk
  // Let the peer invalidate the memory windows of our calls, and invalidate those of the peer.
  bool remote_invalidation = true;
  // Use memory windows although Domain::windows() advises against them.
  bool windows_anyway = false;
  BackwardSupport backward = BackwardSupport::kGeneral;
  // False: none of the four property operations (RPCRDMA2 6.3).
  bool properties = true;
};

}  // namespace dafs::rpcrdma
