// What one worker writes behind: pieces on their way to the server, and for each open file at most
// one that small writes are gathered in. A stream clocks itself: its first write leaves at once,
// and what comes while that is on its way leaves together when the answer is there. So nothing
// waits for a timer, and who waits for all of it waits for two answers. Belongs to one worker's
// thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "client/memory/buffer_pool.h"
#include "fuse/cache/inode_table.h"
#include "fuse/files/behind_table.h"
#include "fuse/files/open_files.h"

namespace dafs::fuse {

// Bytes of an open file on their way, in the buffer that the kernel's WRITE was read into.
struct WritePiece {
  std::shared_ptr<OpenState> open;
  uint64_t offset = 0;
  uint32_t size = 0;
  client::BufferLease lease;
  InodeTable::Change change;
};

class WriteStreams {
 public:
  // Writes up to this size are gathered: copying one costs less than a request of its own.
  static constexpr uint32_t kGatheredMost = 64u << 10;
  // Requests on their way that nobody waits for: they keep the server busy while the program goes
  // on, and more would only be more to lose with this machine.
  static constexpr size_t kMostOut = 4;

  // Half of the write buffers of `pool` at most are taken: nothing is written behind with fewer
  // than two.
  explicit WriteStreams(const client::BufferPool& pool);

  bool enabled() const { return most_out_ > 0; }
  // Whether one more may be on its way with nobody waiting for it.
  bool HasRoom() const { return out_ < most_out_; }

  // Adds `data` to what is gathered of the file, if it goes on there. It is then out in `behind`.
  bool Join(const OpenState& open, uint64_t offset, std::span<const std::byte> data,
            BehindTable& behind);
  // Gathers from `piece` on, which is taken, if something of the file is on its way and nothing of
  // it gathered.
  bool Keep(WritePiece& piece);
  // Gathers from `piece` on, and gives what was gathered before, if there is any.
  void Exchange(WritePiece& piece);

  // A piece of the file is on its way, until Next finds nothing gathered to follow it.
  void Begin(const OpenState& open);
  std::optional<WritePiece> Next(const OpenState& open);

 private:
  struct Stream {
    size_t out = 0;
    std::optional<WritePiece> gathered;  // only while something is out
  };
  size_t most_out_;
  size_t out_ = 0;
  size_t gathered_ = 0;
  absl::flat_hash_map<const OpenState*, Stream> streams_;
};

}  // namespace dafs::fuse
