// FUSE_INIT: chooses from what the kernel offers. A pure function; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

struct InitOptions {
  uint32_t max_write = 1u << 20;  // bytes of the largest WRITE, whole pages
  uint32_t max_readahead = 1u << 20;
  // The kernel checks modes and ACLs before it sends a request. This implies default_permissions.
  bool posix_acl = false;
  uint16_t max_background = 64;  // the kernel's outstanding asynchronous requests
  bool posix_locks = true;       // fcntl locks are sent to us; otherwise the kernel keeps them
  bool flock_locks = true;       // the same for locks of flock(2)
  bool io_uring = false;         // requests arrive by io_uring
};

struct InitAnswer {
  int error = 0;       // an errno value: the kernel is too old, or the request is malformed
  bool again = false;  // the kernel speaks a newer major version and sends INIT again
  fuse_init_out out = {};
  uint64_t flags = 0;  // what both sides agreed on
};

// `body`: the request without its header.
InitAnswer AnswerInit(std::span<const std::byte> body, const InitOptions& options);

}  // namespace dafs::fuse
