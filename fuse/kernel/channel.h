// One worker's end of /dev/fuse (or, in tests, of a socket pair that keeps message boundaries).
// Each request is one read; each answer or notification is one write. Belongs to its worker's
// thread. Several channels may use one connection. Only ForgetPages and ForgetName block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "fuse/kernel/answer_path.h"
#include "runtime/files/unique_fd.h"

namespace dafs::fuse {

class KernelChannel : public AnswerPath {
 public:
  explicit KernelChannel(UniqueFd fd) : fd_(std::move(fd)) {}
  // A channel for notifications only, by a socket of NotificationRelay. Each waits until the kernel
  // has taken it.
  struct Relayed {};
  KernelChannel(UniqueFd socket, Relayed) : fd_(std::move(socket)), is_relayed_(true) {}
  // Whether the relay has ended. A notification may not have been sent.
  bool has_lost_relay() const { return has_lost_relay_; }

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
  // variant that also invalidates data waits for pages. The kernel then accepts no attributes that
  // it requested before. Returns false if it does not have the node (yet, or any more).
  bool ForgetAttributes(uint64_t nodeid) { return Invalidate(nodeid, -1); }
  // Invalidates the cached attributes and data of `nodeid`. Waits for pages that are being read or
  // written, so no thread that serves requests may call it.
  void ForgetPages(uint64_t nodeid) { Invalidate(nodeid, 0); }
  enum class NameDrop : uint8_t {
    kRemove,  // the name leaves the kernel's cache, and file systems mounted on it are detached
    kExpire,  // its time is over: the kernel looks it up before it uses it again
  };
  // Invalidates `name` of directory `parent`, which may be known to be absent. Waits for the lock
  // of the directory, which the kernel holds while a LOOKUP of a new name, a READDIR, or a change
  // of names in it is being answered. So no thread that serves requests may call it. A LOOKUP of a
  // known name holds no lock: its answer may give an expired name a new time.
  void ForgetName(uint64_t parent, std::string_view name, NameDrop how);

  // All names become invalid, and file systems mounted on them are detached. False: the kernel
  // cannot (before Linux 6.16).
  bool ForgetAllNames();
  // The kernel sends again what another process has read from the connection and not answered.
  // False: it cannot (before Linux 6.9).
  bool Resend();

  // Makes the kernel send a NOTIFY_REPLY without data, numbered `unique`, from the calling thread's
  // CPU. If it arrives by an io_uring, it must be answered. Returns false if the kernel does not
  // send it. Since 2026 the kernel sends it only for the node of a regular file.
  bool AskForNothing(uint64_t unique, uint64_t nodeid);

  int fd() const { return fd_.get(); }

 private:
  bool Write(std::initializer_list<Bytes> parts);
  bool AwaitRelay();
  bool Invalidate(uint64_t nodeid, int64_t offset);

  UniqueFd fd_;
  const bool is_relayed_ = false;
  bool has_lost_relay_ = false;
};

// The bytes of a structure of the protocol.
template <class T>
KernelChannel::Bytes AsBytes(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

}  // namespace dafs::fuse
