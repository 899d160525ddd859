// WRITE, and write-behind: a WRITE is answered before the server has its data. Writes that arrive
// while it is outstanding are gathered and sent together. Requests that could see that the data is
// missing wait for it (pending_writes.h). Not used for appends, O_SYNC, O_DSYNC, O_DIRECT and pages
// of a mapping, nor after an error until a write has succeeded. Spec: 6.5.4, 6.5.38, 6.5.39.
// Belongs to one worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "client/files/files.h"
#include "client/memory/buffer_pool.h"
#include "client/state/node.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/files/write_streams.h"
#include "fuse/kernel/protocol.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"
#include "wire/protocol/constants.h"

namespace dafs::fuse {

class WriteOperations {
 public:
  explicit WriteOperations(Context& context)
      : context_(context),
        state_(context.state),
        files_(context.files),
        streams_(context.files.mount().buffers()) {}

  // Called by Operations::Serve. Answers `call`; with write-behind, data that is gathered meanwhile
  // is sent after the answer.
  Task<void> Write(Call& call);

 private:
  // An outstanding write: how many bytes the server has accepted, from the first byte on, and why
  // it did not accept all.
  struct Transfer {
    uint64_t offset = 0;
    uint32_t size = 0;
    wire::StableHow stability = wire::StableHow::kUnstable;
    uint32_t done = 0;
    absl::Status failed;
    bool wants_after = false;
    client::Attributes after;  // of the file after the write, if requested and returned
  };
  Task<Transfer> SendPiece(WritePiece& piece, wire::StableHow stability, bool appends,
                           bool may_ask);
  Task<void> WriteData(const OpenState& open, const client::BufferLease& lease, Transfer& transfer);
  Task<void> AppendData(const OpenState& open, const client::BufferLease& lease,
                        Transfer& transfer);
  void Reply(Call& call, const Transfer& transfer, bool from_cache);

  Task<bool> TakeToUser(Call& call, const OpenState& open, uint32_t size);
  bool UsesWriteBehind(const fuse_write_in& write, const OpenState& open) const;
  Task<void> WriteBehind(Call& call, std::shared_ptr<OpenState> open, uint64_t offset,
                         uint32_t size);
  Task<void> SendPieces(WritePiece piece, Call* waits);
  void FailLate(const WritePiece& piece, const Transfer& transfer);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
  WriteStreams streams_;
};

}  // namespace dafs::fuse
