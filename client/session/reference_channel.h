// The reference channel of a session: a further connection on which the client itself reads blocks
// of the server's exported cache, by RDMA. Private; docs/wire.md, "Reads by reference".
//
// It dies alone: the session lives on without it. A read of memory that the server does not export
// is an access exception, which ends it.
// Belongs to the thread of its loop.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/channel.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/codec/exported_block.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class ReferenceChannel final : public Channel {
 public:
  // Reads outstanding, at most. Each has room for one frame.
  static constexpr uint32_t kMostReads = 16;

  // As Channel::Connect.
  static absl::StatusOr<std::unique_ptr<ReferenceChannel>> Connect(Loop& loop,
                                                                   dat::Provider& provider,
                                                                   dat::Domain& domain,
                                                                   const Options& options);
  ~ReferenceChannel() override;

  // Ends the channel as if the connection was lost.
  void GiveUp(absl::Status why) { Fail(std::move(why)); }

  // Whether another Read may begin.
  bool has_room() const { return up() && !free_.empty(); }

  // One RDMA read of a frame. Lives until it is done. The frame is copied into memory of the
  // channel, so that an application never sees bytes that have not been verified.
  class Read {
   public:
    // Requires channel.has_room().
    Read(ReferenceChannel& channel, dat::RemoteBuffer from);
    ~Read();
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

    // To be awaited. False: the channel has ended.
    Pending<bool>& done() { return done_; }
    // The copy, if it came; valid until the next suspension.
    std::span<const std::byte, wire::kExportedFrame> frame() const {
      return channel_->FrameAt(index_);
    }

   private:
    friend class ReferenceChannel;
    ReferenceChannel* channel_;  // null: it has ended
    const uint32_t index_;
    Pending<bool> done_;
  };

 private:
  explicit ReferenceChannel(Loop& loop);
  void OnRead(uint64_t index, bool came) override;
  void OnEnded() override;
  std::span<std::byte, wire::kExportedFrame> FrameAt(uint32_t index) {
    return std::span(frames_).subspan(index * kFrameStride).first<wire::kExportedFrame>();
  }

  static constexpr size_t kFrameStride = (size_t{wire::kExportedFrame} + 63) / 64 * 64;

  std::vector<std::byte> frames_;
  std::unique_ptr<dat::Region> frames_region_;
  std::vector<uint32_t> free_;
  std::array<Read*, kMostReads> reads_{};  // by index; null: none
};

}  // namespace dafs::client
