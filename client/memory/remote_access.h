// Opens memory to the server for one request. If the session has windows, each buffer gets a memory
// window. Otherwise the server uses the registration of the region, which outlasts the request.
// Spec: 4.2.2 (direct transfers); wire/dat/dat.h (PostBind).
//
// Belongs to the thread of its loop. Nothing blocks. Nothing allocates, except for requests with
// more than one window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "wire/dat/dat.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Windows of one request, or of one batch item, by their contexts.
using WindowContexts = absl::InlinedVector<uint32_t, 1>;

class RemoteAccess {
 public:
  // Most windows of one request. A BATCH_SUBMIT itself has none: its items have their own.
  static constexpr size_t kMostOfRequest = 4;
  // Most windows of all outstanding batch items.
  static constexpr size_t kMostOfBatches = 256;

  // Sets the session's endpoint, on which windows are bound. Null: binds no more windows; those
  // bound before are gone. Set null before the endpoint ends.
  void UseWindows(dat::Endpoint* endpoint) {
    endpoint_ = endpoint;
    bound_.clear();
    if (endpoint != nullptr) count_ = 0;
    ++session_;
  }
  // Differs for each session, so that windows of an earlier one are recognised.
  uint64_t session() const { return session_; }
  uint64_t count() const { return count_; }  // windows bound in the present session

  // Returns the peer's name for `size` bytes at `at` of `region`, by the registration of the
  // region.
  static wire::DirectOpBuffer Advertise(const dat::Region& region, const std::byte* at,
                                        uint32_t size) {
    return BufferOf({region.TargetAddressOf(at), region.context()}, size);
  }
  // Opens the bytes for `right` (kRemoteRead or kRemoteWrite), and returns the server's name for
  // them. With windows: for one request, which must be posted after this call; Take returns their
  // contexts. Errors as of Endpoint::PostBind.
  absl::StatusOr<wire::DirectOpBuffer> Expose(const dat::Region& region, std::byte* at,
                                              uint32_t size, dat::Access right) {
    if (endpoint_ == nullptr || size == 0) return Advertise(region, at, size);
    absl::StatusOr<dat::RemoteBuffer> window = endpoint_->PostBind({at, size, &region}, right);
    if (!window.ok()) return window.status();
    bound_.push_back(window->context);
    ++count_;
    return BufferOf(*window, size);
  }
  // Replaces the content of `to` by the windows that were bound since the last call.
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
