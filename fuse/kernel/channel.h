// One worker's end of /dev/fuse (or, in tests, of a socket pair that keeps message boundaries):
// requests come out, answers and notifications go in, each as one read or one write.
// Belongs to its worker's thread; several channels may stand on one connection. Nothing blocks but
// ForgetPages.
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

  // A channel of its own on the connection of `fd`, with its own queue in the kernel
  // (FUSE_DEV_IOC_CLONE); where that is not to be had, on a duplicate of the descriptor.
  static UniqueFd CloneDevice(int fd);

  enum class ReadStatus : uint8_t {
    kRequest,  // `bytes` of a request were read
    kNothing,  // none is waiting, or another worker was faster
    kEnd,      // unmounted or aborted: no request will come any more
  };
  struct ReadOutcome {
    ReadStatus status;
    size_t bytes;
  };
  // `into` holds the largest request: the negotiated max_write and kWriteHeaderBytes.
  ReadOutcome Read(std::span<std::byte> into);

  // Whether the connection has ended, without reading a request.
  bool AtEnd() const;

  bool Reply(uint64_t unique, std::initializer_list<Bytes> parts) override;
  bool ReplyError(uint64_t unique, int error) override;

  // Lets the kernel forget the attributes it caches for `nodeid`; its cached data stays. Safe from
  // a thread that serves requests as long as a request on that node is being answered: only the
  // variant that drops data waits for pages.
  void ForgetAttributes(uint64_t nodeid) { Invalidate(nodeid, -1); }
  // The same, and of its cached data. Waits for pages that are being read or written, so that no
  // thread that serves requests may call it.
  void ForgetPages(uint64_t nodeid) { Invalidate(nodeid, 0); }

  // Has the kernel send a NOTIFY_REPLY without data, numbered `unique`, from the calling thread's
  // CPU; it is to be answered when it comes by an io_uring. False: the kernel does not; since 2026
  // it does so only for the node of a regular file.
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
