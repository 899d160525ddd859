// Owners of the handles of librdmacm and libibverbs, one class with one release function for each.
// Wrap a handle as soon as it is made. Internal to the verbs provider.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <memory>

#include "wire/dat/verbs/opener.h"

namespace dafs::dat::verbs {

// The release function as a type, so that std::unique_ptr is no larger than the pointer.
template <auto kRelease>
struct Release {
  template <typename T>
  void operator()(T* handle) const {
    kRelease(handle);
  }
};

using EventChannel = std::unique_ptr<rdma_event_channel, Release<rdma_destroy_event_channel>>;
// Destroy it before its event channel and after its queue pair. Acknowledge every event taken from
// the channel for it first, because the destroy call waits for that.
struct DestroyCmId {
  Opener* opener = nullptr;
  void operator()(rdma_cm_id* id) const {
    opener->Call([id] { return rdma_destroy_id(id); });
  }
};
using CmId = std::unique_ptr<rdma_cm_id, DestroyCmId>;
// Makes librdmacm keep every device of the list open, including a device that was unplugged.
using DeviceList = std::unique_ptr<ibv_context*, Release<rdma_free_devices>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Release<ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Release<ibv_dereg_mr>>;
// Destroy it before the queue pair that it is bound on: rdma_rxe waits a minute for a bound window.
struct DeallocateWindow {  // ibv_dealloc_mw is an inline function: no argument of a template
  void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
};
using MemoryWindow = std::unique_ptr<ibv_mw, DeallocateWindow>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>>;
// Destroy it before its completion channel and after the queue pairs that use it.
using CompletionQueue = std::unique_ptr<ibv_cq, Release<ibv_destroy_cq>>;

// The queue pair of a connection id, made with rdma_create_qp. After its destruction the device
// uses no buffer posted to it.
struct DestroyQueuePair {
  void operator()(rdma_cm_id* id) const { rdma_destroy_qp(id); }
};
using QueuePair = std::unique_ptr<rdma_cm_id, DestroyQueuePair>;

// Makes reads of the descriptor fail with EAGAIN instead of blocking. Returns false and sets errno
// on failure.
inline bool MakeNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

}  // namespace dafs::dat::verbs
