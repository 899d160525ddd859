// Owners of the handles of librdmacm and libibverbs: one class and one release each. A handle is
// wrapped the moment it is made. Internal to the verbs provider.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "wire/dat/verbs/opener.h"

namespace dafs::dat::verbs {

// The release of a handle, as a type: std::unique_ptr costs no more than the pointer.
template <auto kRelease>
struct Release {
  template <typename T>
  void operator()(T* handle) const {
    kRelease(handle);
  }
};

using EventChannel = std::unique_ptr<rdma_event_channel, Release<rdma_destroy_event_channel>>;
// Goes before its event channel and after its queue pair. Every event taken from the channel for
// it was acknowledged before (destroying waits for that).
struct DestroyCmId {
  Opener* opener = nullptr;
  void operator()(rdma_cm_id* id) const {
    opener->Call([id] { return rdma_destroy_id(id); });
  }
};
using CmId = std::unique_ptr<rdma_cm_id, DestroyCmId>;
// While it lives librdmacm keeps every device of the list open, also one that was unplugged.
using DeviceList = std::unique_ptr<ibv_context*, Release<rdma_free_devices>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Release<ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Release<ibv_dereg_mr>>;
// Goes before the queue pair it is bound on: rdma_rxe waits a minute for one that is still bound.
struct DeallocateWindow {  // ibv_dealloc_mw is an inline function: no argument of a template
  void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
};
using MemoryWindow = std::unique_ptr<ibv_mw, DeallocateWindow>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>>;
// Goes before its completion channel and after the queue pairs that use it.
using CompletionQueue = std::unique_ptr<ibv_cq, Release<ibv_destroy_cq>>;

// The queue pair of a connection id, made with rdma_create_qp. When it is gone the device uses no
// buffer posted to it.
struct DestroyQueuePair {
  void operator()(rdma_cm_id* id) const { rdma_destroy_qp(id); }
};
using QueuePair = std::unique_ptr<rdma_cm_id, DestroyQueuePair>;

// Reads of the descriptor fail with EAGAIN instead of waiting. errno on failure.
inline bool MakeNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// A file descriptor of our own (epoll, timer).
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace dafs::dat::verbs
