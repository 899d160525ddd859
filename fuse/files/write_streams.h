// The write-behind of one worker: pieces that are outstanding, and for each open file at most one
// piece that collects small writes. A stream clocks itself: its first write is sent at once, and
// the writes that arrive before the reply are sent together after it. So no write waits for a
// timer, and a caller that waits for all data waits for two replies. Belongs to one worker's
// thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "client/memory/buffer_pool.h"
#include "fuse/cache/own_changes.h"
#include "fuse/files/open_files.h"
#include "fuse/files/write_behind_table.h"

namespace dafs::fuse {

// Bytes of an open file that are written behind, in the buffer that the kernel's WRITE was read
// into.
struct WritePiece {
  std::shared_ptr<OpenState> open;
  uint64_t offset = 0;
  uint32_t size = 0;
  client::BufferLease lease;
  OwnChanges::Change change;
  uint32_t live_slot = 0;  // LiveFiles
};

class WriteStreams {
 public:
  // Writes up to this size are collected: copying one costs less than a request of its own.
  static constexpr uint32_t kGatheredMost = 64u << 10;
  // Outstanding requests without a waiter. They keep the server busy while the program continues.
  // With more, a crash of this machine would only lose more data.
  static constexpr size_t kMostOut = 4;

  // Uses at most half of the write buffers of `pool`. With fewer than two write buffers there is no
  // write-behind.
  explicit WriteStreams(const client::BufferPool& pool);

  bool enabled() const { return most_out_ > 0; }
  // Whether one more request may be outstanding without a waiter.
  bool HasRoom() const { return out_ < most_out_; }

  // Appends `data` to the collected piece of the file, and lengthens that part in `behind`. Returns
  // the piece. Returns null, and changes nothing, if no piece is collecting, if `data` does not
  // continue it or is larger than kGatheredMost, if the buffer has no room, or if other parts in
  // `behind` overlap.
  const WritePiece* Join(const OpenState& open, uint64_t offset, std::span<const std::byte> data,
                         WriteBehindTable& write_behind);
  // Makes `piece` the collected piece of its file: Join appends to it, and Next returns it after a
  // reply. Returns false, and leaves `piece`, if no piece of the file is outstanding, if the file
  // has a collected piece, if `piece` is larger than kGatheredMost, or if the files together have
  // as many collected pieces as may be outstanding.
  bool Keep(WritePiece& piece);
  // Swaps `piece` with the collected piece of its file: `piece` is collected from now on, and the
  // caller sends the earlier one. Does nothing if the file has no collected piece, or if `piece` is
  // larger than kGatheredMost.
  void Exchange(WritePiece& piece);

  // A piece of the file is outstanding, until Next returns nullopt. Next returns the collected
  // piece, to be sent next.
  void Begin(const OpenState& open);
  std::optional<WritePiece> Next(const OpenState& open);

 private:
  struct Stream {
    size_t out = 0;
    std::optional<WritePiece> gathered;  // only while a piece is outstanding
  };
  size_t most_out_;
  size_t out_ = 0;
  size_t gathered_ = 0;
  absl::flat_hash_map<const OpenState*, Stream> streams_;
};

}  // namespace dafs::fuse
