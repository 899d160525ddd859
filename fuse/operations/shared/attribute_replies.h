// Attributes on their way to the kernel: the answers that carry them, how long the kernel may cache
// them, and the changes by this mount after which it must not use those that it has.
// Belongs to one worker's thread. Nothing blocks.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "client/state/node.h"
#include "fuse/cache/inode_table.h"
#include "fuse/kernel/channel.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

class AttributeReplies {
 public:
  // `state` and `channel` must outlive it.
  AttributeReplies(MountState& state, KernelChannel& channel) : state_(state), channel_(channel) {}
  AttributeReplies(const AttributeReplies&) = delete;
  AttributeReplies& operator=(const AttributeReplies&) = delete;

  // Answers a GETATTR, STATX or SETATTR with attributes of `nodeid` that the server has just sent.
  void Reply(Call& call, uint64_t nodeid, const client::Attributes& attributes);
  // Likewise, for attributes that the kernel may cache for `valid_for`. Returns false if the kernel
  // did not accept the answer.
  bool ReplyValidFor(Call& call, const wire::FileAttributes& attributes, absl::Duration valid_for);
  // Answers with prefetched attributes, which came with a change by this mount or with an open.
  // Returns false if there are none that are still valid.
  bool ReplyPrefetched(Call& call, const InodeView& node);
  // Records that `attributes` are about to be sent with the answer to `call`. Returns how long the
  // kernel may cache them.
  absl::Duration Validity(const Call& call, uint64_t nodeid, const client::Attributes& attributes);

  // Invalidates the kernel's attributes of the node, so that it requests them again.
  void Forget(uint64_t nodeid);
  // The node changes. Called before the request to the server and after its reply.
  void MarkChanged(uint64_t nodeid);
  // A change of a file's data begins or has ended. Called before the caller is answered. If the
  // kernel may show set-id bits that the change removes, its attributes are invalidated.
  void MarkDataChanged(uint64_t nodeid);
  OwnChanges::Change BeginWrite(uint64_t nodeid);
  // `after`: the attributes after the write; none of them valid: not known.
  void EndWrite(uint64_t nodeid, const OwnChanges::Change& change, client::Attributes after);
  // Whether a write also requests the attributes after it: git(1) reads them after a write, tar(1)
  // does not. After such a read the next kWritesWithAttributes writes request them.
  bool WantsAfterWrite();

 private:
  static constexpr int kWritesWithAttributes = 16;

  MountState& state_;
  KernelChannel& channel_;
  int writes_with_attributes_ = 0;
};

}  // namespace dafs::fuse
