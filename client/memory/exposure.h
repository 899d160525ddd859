// How memory is opened to the server for one request: by a memory window for each buffer where the
// session has windows, else by the registration of the region, which lasts. Spec: 4.2.2 (direct
// transfers); wire/dat/dat.h (PostBind).
//
// Belongs to the thread of its loop. Nothing blocks or allocates, but for requests of more than one
// window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Windows of one request, or of one item of a batch, by their contexts.
using WindowContexts = absl::InlinedVector<uint32_t, 1>;

class Exposure {
 public:
  // Windows that one request may have; one of a batch may have none: its items have their own.
  static constexpr size_t kMostOfRequest = 4;
  // Windows of all items of batches that are out.
  static constexpr size_t kMostOfBatches = 256;

  // The endpoint of the session, on which windows are bound. Null, and before the endpoint goes:
  // none are bound any more, and none of those bound before are left.
  void UseWindows(dat::Endpoint* endpoint) {
    endpoint_ = endpoint;
    bound_.clear();
    if (endpoint != nullptr) count_ = 0;
    ++session_;
  }
  // Tells the windows of one session from those of another.
  uint64_t session() const { return session_; }
  uint64_t count() const { return count_; }  // of windows bound in the present session

  // How a peer of the present session names `size` bytes at `at` of `region` by its registration.
  static wire::DirectOpBuffer Advertise(const dat::Region& region, const std::byte* at,
                                        uint32_t size) {
    return BufferOf({region.TargetAddressOf(at), region.context()}, size);
  }
  // Opens them for `right` (kRemoteRead or kRemoteWrite), and says how the server names them. With
  // windows: for one request, which is posted behind this; Take has the contexts then. Errors as of
  // Endpoint::PostBind.
  absl::StatusOr<wire::DirectOpBuffer> Expose(const dat::Region& region, std::byte* at,
                                              uint32_t size, dat::Access right) {
    if (endpoint_ == nullptr || size == 0) return Advertise(region, at, size);
    absl::StatusOr<dat::RemoteBuffer> window = endpoint_->PostBind({at, size, &region}, right);
    if (!window.ok()) return window.status();
    bound_.push_back(window->context);
    ++count_;
    return BufferOf(*window, size);
  }
  // Puts the windows that were bound since it was called last in the place of what is in `to`.
  void Take(WindowContexts& to) {
    to.clear();
    to.swap(bound_);
  }

 private:
  static wire::DirectOpBuffer BufferOf(const dat::RemoteBuffer& remote, uint32_t size) {
    wire::DirectOpBuffer buffer;
    buffer.buffer_address = remote.target_address;
    buffer.buffer_byte_count = size;
    buffer.buffer_handle = remote.context;
    return buffer;
  }

  dat::Endpoint* endpoint_ = nullptr;
  uint64_t session_ = 0;
  uint64_t count_ = 0;
  WindowContexts bound_;
};

}  // namespace dafs::client
