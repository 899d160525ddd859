// The path on which a request is answered. It is the path on which the request arrived: /dev/fuse
// (channel.h) or an entry of an io_uring (ring.h). Belongs to its worker's thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace dafs::fuse {

class AnswerPath {
 public:
  using Bytes = std::span<const std::byte>;
  virtual ~AnswerPath() = default;

  // Answers request `unique` with the concatenated `parts`, at most 3. Returns false if the kernel
  // no longer wants the answer (the caller was killed, the mount has ended). The caller must then
  // take back what the answer granted (a lookup count, an open file).
  virtual bool Reply(uint64_t unique, std::initializer_list<Bytes> parts) = 0;
  // `error`: an errno value, positive; 0: success without data.
  virtual bool ReplyError(uint64_t unique, int error) = 0;
};

}  // namespace dafs::fuse
