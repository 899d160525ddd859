#include "fuse/operations/shared/pending_writes.h"

#include <utility>

#include "fuse/kernel/protocol.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {
namespace {

// The files and directories that a call changes; 0: none.
struct Changed {
  uint64_t first = 0;
  uint64_t second = 0;
};

Changed ChangedBy(const Call& call) {
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

}  // namespace

void PendingWrites::Hold(Call& call) {
  const Changed changed = ChangedBy(call);
  if (changed.first == 0) return;
  WriteBehindTable& write_behind = state_.write_behind;
  const uint64_t first = write_behind.Hold(changed.first);
  const uint64_t second = changed.second == 0 || changed.second == changed.first
                              ? 0
                              : write_behind.Hold(changed.second);
  call.on_end = [&write_behind, first, second] {
    write_behind.Release(first);
    if (second != 0) write_behind.Release(second);
  };
}

Task<void> PendingWrites::Drained(uint64_t nodeid) {
  if (closed_ || state_.write_behind.idle()) co_return;
  LoopWait wait(files_.loop());
  if (!state_.write_behind.WakeWhenDrained(nodeid, wait.waker())) co_return;
  waits_.insert(&wait);
  absl::Status ignored = co_await wait.Wait();
  waits_.erase(&wait);
}

void PendingWrites::Shutdown() {
  closed_ = true;
  // Pending writes of other workers end without these calls.
  while (!waits_.empty()) {
    LoopWait* wait = *waits_.begin();
    waits_.erase(waits_.begin());
    wait->End(absl::OkStatus());
  }
}

std::optional<absl::Time> PendingWrites::BeforeAsking() const {
  if (state_.write_behind.idle()) return std::nullopt;
  return Loop::Now();
}

Task<void> PendingWrites::Revalidate(const client::Identity& user, std::optional<absl::Time> before,
                                     absl::StatusOr<client::Node>& node) {
  if (!before.has_value() || !node.ok()) co_return;
  const uint64_t known = state_.caches.inodes.NodeOf(node->handle);
  if (known == 0) co_return;
  if (!state_.write_behind.Holds(known) && !state_.caches.attributes.ChangedSince(known, *before))
    co_return;
  co_await Drained(known);
  absl::StatusOr<client::Attributes> attributes =
      co_await files_.Of(user).attributes().GetAttributes(user, node->handle);
  if (attributes.ok()) {
    node->attributes = *std::move(attributes);
  } else {
    node = attributes.status();
  }
}

}  // namespace dafs::fuse
