// One worker's end of /dev/fuse (or, in tests, of a socket pair that keeps message boundaries).
// Each request is one read; each answer or notification is one write. Belongs to its worker's
// thread. Several channels may use one connection. Only ForgetPages blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "fuse/kernel/answer_path.h"
#include "runtime/unique_fd.h"

namespace dafs::fuse {

class KernelChannel : public AnswerPath {
 public:
  explicit KernelChannel(UniqueFd fd) : fd_(std::move(fd)) {}

  // Returns a new channel of the connection of `fd`, with its own queue in the kernel
  // (FUSE_DEV_IOC_CLONE). If the kernel cannot clone it, returns a duplicate of the descriptor.
  static UniqueFd CloneDevice(int fd);

  enum class ReadStatus : uint8_t {
    kRequest,  // `bytes` of a request were read
    kNothing,  // none is waiting, or another worker has taken it
    kEnd,      // unmounted or aborted: no more requests will arrive
  };
  struct ReadOutcome {
    ReadStatus status;
    size_t bytes;
  };
  // `into` must hold the largest request: the negotiated max_write plus kWriteHeaderBytes.
  ReadOutcome Read(std::span<std::byte> into);

  // Whether the connection has ended. Does not read a request.
  bool AtEnd() const;

  bool Reply(uint64_t unique, std::initializer_list<Bytes> parts) override;
  bool ReplyError(uint64_t unique, int error) override;

  // Invalidates the attributes that the kernel caches for `nodeid`, but not its cached data. Safe
  // on a thread that serves requests, while a request on that node is being answered: only the
  // variant that also invalidates data waits for pages.
  void ForgetAttributes(uint64_t nodeid) { Invalidate(nodeid, -1); }
  // Invalidates the cached attributes and data of `nodeid`. Waits for pages that are being read or
  // written, so no thread that serves requests may call it.
  void ForgetPages(uint64_t nodeid) { Invalidate(nodeid, 0); }

  // Makes the kernel send a NOTIFY_REPLY without data, numbered `unique`, from the calling thread's
  // CPU. If it arrives by an io_uring, it must be answered. Returns false if the kernel does not
  // send it. Since 2026 the kernel sends it only for the node of a regular file.
  bool AskForNothing(uint64_t unique, uint64_t nodeid);

  int fd() const { return fd_.get(); }

 private:
  bool Write(std::initializer_list<Bytes> parts);
  void Invalidate(uint64_t nodeid, int64_t offset);

  UniqueFd fd_;
};

// The bytes of a structure of the protocol.
template <class T>
KernelChannel::Bytes AsBytes(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

}  // namespace dafs::fuse
