// FUSE_INIT: what the kernel offers and what we take. A pure function; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fuse/kernel/protocol.h"

namespace dafs::fuse {

struct InitWishes {
  uint32_t max_write = 1u << 20;  // bytes of the largest WRITE, whole pages
  uint32_t max_readahead = 1u << 20;
  // The kernel checks modes and ACLs before it asks; it makes default_permissions of this.
  bool posix_acl = false;
  uint16_t max_background = 64;  // asynchronous requests of the kernel in flight
  bool posix_locks = true;       // fcntl locks come to us; else the kernel keeps them
  bool flock_locks = true;       // those of flock(2) likewise
  bool io_uring = false;         // requests come by io_uring
};

struct InitAnswer {
  int error = 0;       // an errno value: the kernel is too old, or the request malformed
  bool again = false;  // the kernel speaks a newer major version and sends INIT once more
  fuse_init_out out = {};
  uint64_t flags = 0;  // what both sides agreed on
};

// `body`: the request behind its header.
InitAnswer AnswerInit(std::span<const std::byte> body, const InitWishes& wishes);

}  // namespace dafs::fuse
