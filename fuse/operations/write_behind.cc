// Write-behind: a WRITE is answered before the server has its data. Writes that arrive while it is
// outstanding are gathered and sent together. Every request that could see that the data is missing
// waits for it: all other requests for the file, and lookups of its names. Likewise, they wait for
// a request of a killed program, which the server may still execute. Not used for appends, O_SYNC,
// O_DSYNC, O_DIRECT and pages of a mapping, nor after an error until a write has succeeded.
// Spec: 6.5.38, 6.5.39.
#include <fcntl.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fuse/operations/operations.h"
#include "runtime/log.h"

namespace dafs::fuse {

// Whether Serve waits for pending writes. If not, the operation itself does.
bool Operations::WaitsForWrites(uint32_t opcode) {
  return opcode != FUSE_WRITE && opcode != FUSE_FLUSH && opcode != FUSE_RELEASE;
}

// The files and directories that a call changes; 0: none.
struct Operations::Changed {
  uint64_t first = 0;
  uint64_t second = 0;
};

Operations::Changed Operations::ChangedBy(const Call& call) {
  RequestReader in = call.reader();
  switch (call.header().opcode) {
    case FUSE_WRITE:
    case FUSE_FALLOCATE:
    case FUSE_SETATTR:
    case FUSE_SETXATTR:
    case FUSE_REMOVEXATTR:
    case FUSE_CREATE:
    case FUSE_TMPFILE:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_SYMLINK:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
      return {call.nodeid()};
    case FUSE_LINK:
      return {call.nodeid(), in.Take<fuse_link_in>().oldnodeid};
    case FUSE_RENAME:
      return {call.nodeid(), in.Take<fuse_rename_in>().newdir};
    case FUSE_RENAME2:
      return {call.nodeid(), in.Take<fuse_rename2_in>().newdir};
    case FUSE_COPY_FILE_RANGE:
    case kCopyFileRange64:
      return {in.Take<fuse_copy_file_range_in>().nodeid_out};
    default:
      return {};
  }
}

void Operations::EndsEarly(Call& call) {
  const Changed changed = ChangedBy(call);
  if (changed.first == 0) return;
  BehindTable& behind = state_.behind;
  const uint64_t first = behind.Hold(changed.first);
  const uint64_t second =
      changed.second == 0 || changed.second == changed.first ? 0 : behind.Hold(changed.second);
  call.on_end = [&behind, first, second] {
    behind.Release(first);
    if (second != 0) behind.Release(second);
  };
}

bool Operations::GoesBehind(const fuse_write_in& write, const OpenState& open) const {
  constexpr uint32_t kAtOnce = O_APPEND | O_DIRECT | O_SYNC | O_DSYNC;
  return WritesBehind(state_.options) && streams_.enabled() && write.size > 0 &&
         (write.flags & kAtOnce) == 0 && (write.write_flags & FUSE_WRITE_CACHE) == 0 &&
         !open.writes->doubtful();
}

// Waits until the server has all writes to the file that are pending now.
dat::Task<void> Operations::Settled(uint64_t nodeid) {
  if (closed_ || state_.behind.idle()) co_return;
  auto waiting = std::make_shared<Settling>();
  dat::Loop& loop = files_.loop();
  const bool waits = state_.behind.WhenSettled(
      nodeid, [waiting, &loop] { loop.Post([waiting] { waiting->Finish(); }); });
  if (!waits) co_return;
  settling_.insert(waiting);
  co_await waiting->done;
  settling_.erase(waiting);
}

void Operations::Shutdown() {
  closed_ = true;
  // Pending writes of other workers end without these calls.
  absl::flat_hash_set<std::shared_ptr<Settling>> waiting = std::move(settling_);
  settling_.clear();
  for (const std::shared_ptr<Settling>& one : waiting) one->Finish();
}

void Operations::ReplyWritten(Call& call, uint32_t size) {
  fuse_write_out out = {.size = size, .padding = 0};
  call.Reply({AsBytes(out)});
}

dat::Task<void> Operations::WriteBehind(Call& call, std::shared_ptr<OpenState> open,
                                        uint64_t offset, uint32_t size) {
  std::span<const std::byte> data(call.lease().payload(), size);
  if (streams_.Join(*open, offset, data, state_.behind)) {
    ReplyWritten(call, size);
    co_return;
  }
  while (!state_.behind.Begin(open->nodeid, offset, size)) {
    co_await Settled(open->nodeid);
    if (call.answered() || closed_) co_return;  // its caller was killed, or the mount has ended
  }
  WritePiece piece;
  piece.offset = offset;
  piece.size = size;
  piece.lease = std::move(call.lease());
  piece.change = BeginWrite(open->nodeid);
  piece.open = std::move(open);
  const bool early = !piece.open->writes->doubtful();  // writes it waited for may have failed
  if (early && streams_.Keep(piece)) {
    ReplyWritten(call, size);
    co_return;
  }
  Call* waits = &call;
  if (early && streams_.HasRoom()) {
    streams_.Exchange(piece);
    ReplyWritten(call, size);
    waits = nullptr;
  }
  co_await SendPieces(std::move(piece), waits);
}

// Sends `piece`, then the data that was gathered meanwhile, until none is left. `waits` is the call
// to answer when the server has `piece`; null if it was answered.
dat::Task<void> Operations::SendPieces(WritePiece piece, Call* waits) {
  const std::shared_ptr<OpenState> open = piece.open;
  streams_.Begin(*open);
  for (;;) {
    dat::Task<Transfer> carrying =
        Carry(piece, wire::StableHow::kUnstable, /*appends=*/false, /*may_ask=*/true);
    Transfer transfer = co_await carrying;
    if (waits != nullptr) {
      ReplyTransfer(*std::exchange(waits, nullptr), transfer, /*from_cache=*/false);
    } else if (!transfer.failed.ok()) {
      FailLate(piece, transfer);
    }
    state_.behind.End(open->nodeid, piece.offset);
    std::optional<WritePiece> next = streams_.Next(*open);
    if (!next.has_value()) co_return;
    piece = *std::move(next);
  }
}

// Handles the failure of a write that was answered before. The next fsync or close of each
// descriptor reports the error. The kernel's cached pages are invalidated. No write is answered
// early until one has succeeded.
void Operations::FailLate(const WritePiece& piece, const Transfer& transfer) {
  const bool first = !piece.open->writes->doubtful();
  piece.open->writes->NoteFailure(transfer.failed);
  if (state_.notifier != nullptr) state_.notifier->DropPages(piece.open->nodeid, [] {});
  if (!first) return;  // log one line for each failure that the program sees
  const Place place = state_.inodes.PlaceOf(piece.open->nodeid);
  LogError(absl::StrCat(state_.options.source.text, ": ",
                        place.name.empty() ? "a file without a name" : place.name, ": ",
                        piece.size - transfer.done, " bytes at ", piece.offset + transfer.done,
                        " could not be written: ", transfer.failed.message(),
                        "; the next fsync or close of the file fails"));
}

// Called before a lookup; the result is for LookAgain. Returns nullopt if no write is pending.
std::optional<absl::Time> Operations::BeforeAsking() const {
  if (state_.behind.idle()) return std::nullopt;
  return dat::Loop::Now();
}

// The reply to a lookup may be older than pending writes to that file. If so, waits for the writes
// and requests the attributes again.
dat::Task<void> Operations::LookAgain(const client::Identity& who, std::optional<absl::Time> before,
                                      absl::StatusOr<client::Node>& node) {
  if (!before.has_value() || !node.ok()) co_return;
  const uint64_t known = state_.inodes.NodeOf(node->handle);
  if (known == 0) co_return;
  if (!state_.behind.Holds(known) && !state_.inodes.TouchedSince(known, *before)) co_return;
  co_await Settled(known);
  absl::StatusOr<wire::FileAttributes> attributes =
      co_await files_.GetAttributes(who, node->handle);
  if (attributes.ok()) {
    node->attributes = *std::move(attributes);
  } else {
    node = attributes.status();
  }
}

}  // namespace dafs::fuse
