#include "fuse/kernel/init.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuse/kernel/uring_protocol.h"

namespace dafs::fuse {
namespace {

// INIT before 7.36 ends with `flags`.
constexpr size_t kShortInitBytes = 16;

// The features to request where the kernel has them. Not requested, and why:
//  WRITEBACK_CACHE           writes go through, so that other clients see them (close-to-open)
//  ATOMIC_O_TRUNC            the kernel sends SETATTR of size 0 after the OPEN
//  SETXATTR_EXT              the server's file system clears set-group-id bits itself
//  SPLICE_*                  requests are read into buffers that stay allocated
//  EXPORT_SUPPORT            we forget a node when the kernel does
constexpr uint64_t kWanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_AUTO_INVAL_DATA |
                             FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO |
                             FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS |
                             FUSE_HANDLE_KILLPRIV_V2 | FUSE_DONT_MASK | FUSE_INIT_EXT |
                             kInitDirectIoAllowMmap;

}  // namespace

InitAnswer AnswerInit(std::span<const std::byte> body, const InitOptions& options) {
  InitAnswer answer;
  fuse_init_in in = {};
  if (body.size() < kShortInitBytes) {
    answer.error = EPROTO;
    return answer;
  }
  std::memcpy(&in, body.data(), std::min(body.size(), sizeof(in)));
  answer.out.major = FUSE_KERNEL_VERSION;
  answer.out.minor = FUSE_KERNEL_MINOR_VERSION;
  if (in.major > FUSE_KERNEL_VERSION) {
    answer.again = true;
    return answer;
  }
  if (in.major < FUSE_KERNEL_VERSION || in.minor < kLeastMinor) {
    answer.error = EPROTO;
    return answer;
  }
  uint64_t offered = in.flags;
  if (in.flags & FUSE_INIT_EXT) offered |= uint64_t{in.flags2} << 32;
  uint64_t wanted = kWanted;
  if (options.posix_locks) wanted |= FUSE_POSIX_LOCKS;
  if (options.flock_locks) wanted |= FUSE_FLOCK_LOCKS;
  if (options.posix_acl) wanted |= FUSE_POSIX_ACL;
  if (options.io_uring) wanted |= kInitOverIoUring;
  answer.flags = offered & wanted;

  fuse_init_out& out = answer.out;
  out.flags = static_cast<uint32_t>(answer.flags);
  out.flags2 = static_cast<uint32_t>(answer.flags >> 32);
  out.max_readahead = std::min(in.max_readahead, options.max_readahead);
  out.max_background = options.max_background;
  // The proportion that the kernel uses by default.
  out.congestion_threshold = static_cast<uint16_t>(options.max_background * 3 / 4);
  out.max_write = options.max_write;
  out.max_pages = static_cast<uint16_t>(options.max_write / 4096);
  out.time_gran = 1;
  return answer;
}

}  // namespace dafs::fuse
