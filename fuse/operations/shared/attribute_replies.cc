#include "fuse/operations/shared/attribute_replies.h"

#include <optional>
#include <utility>

#include "fuse/kernel/attributes.h"
#include "fuse/kernel/protocol.h"
#include "runtime/loop/loop.h"

namespace dafs::fuse {

absl::Duration AttributeReplies::Validity(const Call& call, uint64_t nodeid,
                                          const client::Attributes& attributes) {
  bool hides_change = false;
  const absl::Duration valid_for =
      state_.caches.attributes.Sent(nodeid, attributes, Loop::Now(), call.arrived(), &hides_change);
  if (hides_change && state_.notifier != nullptr) {
    state_.notifier->DropPagesIf(nodeid, [&state = state_, nodeid, promise = attributes.promise] {
      return state.caches.attributes.MayDropPages(nodeid, promise);
    });
  }
  return valid_for;
}

void AttributeReplies::MarkChanged(uint64_t nodeid) {
  state_.caches.attributes.MarkChanged(nodeid, Loop::Now());
}

void AttributeReplies::MarkDataChanged(uint64_t nodeid) {
  if (state_.caches.attributes.MarkChanged(nodeid, Loop::Now())) Forget(nodeid);
}

OwnChanges::Change AttributeReplies::BeginWrite(uint64_t nodeid) {
  const OwnChanges::Change change = state_.caches.attributes.BeginChange(nodeid, Loop::Now());
  if (change.shows_set_id) Forget(nodeid);
  return change;
}

void AttributeReplies::EndWrite(uint64_t nodeid, const OwnChanges::Change& change,
                                client::Attributes after) {
  if (state_.caches.attributes.EndChange(nodeid, change, std::move(after), Loop::Now())) {
    Forget(nodeid);  // the kernel may have requested them during the write
  }
}

void AttributeReplies::Forget(uint64_t nodeid) {
  channel_.ForgetAttributes(nodeid);
  state_.caches.attributes.Invalidated(nodeid);
}

bool AttributeReplies::WantsAfterWrite() {
  if (writes_with_attributes_ == 0) return false;
  --writes_with_attributes_;
  return state_.options.cache.reg_min > absl::ZeroDuration();
}

bool AttributeReplies::ReplyPrefetched(Call& call, const InodeView& node) {
  if (node.type == wire::ObjectType::kReg &&
      state_.caches.attributes.KernelLacksChange(node.nodeid)) {
    writes_with_attributes_ = kWritesWithAttributes;
  }
  std::optional<AttributeCache::Prefetched> fresh =
      state_.caches.attributes.TakePrefetched(call.nodeid(), Loop::Now(), call.arrived());
  if (!fresh.has_value()) return false;
  if (!ReplyValidFor(call, fresh->attributes, fresh->valid_for)) {
    state_.caches.attributes.NotAccepted(call.nodeid());
  }
  return true;
}

void AttributeReplies::Reply(Call& call, uint64_t nodeid, const client::Attributes& attributes) {
  if (!ReplyValidFor(call, attributes, Validity(call, nodeid, attributes))) {
    state_.caches.attributes.NotAccepted(nodeid);
  }
}

bool AttributeReplies::ReplyValidFor(Call& call, const wire::FileAttributes& attributes,
                                     absl::Duration valid_for) {
  KernelTime valid = fuse::Validity(valid_for);
  if (call.header().opcode == kStatx) {
    StatxOut out = {};
    out.attr_valid = valid.seconds;
    out.attr_valid_nsec = valid.nanoseconds;
    out.stat = KernelStatx(attributes, call.nodeid());
    out.stat.ino = state_.caches.inodes.NumberOf(call.nodeid(), out.stat.ino);
    return call.Reply({AsBytes(out)});
  }
  fuse_attr_out out = {};
  out.attr_valid = valid.seconds;
  out.attr_valid_nsec = valid.nanoseconds;
  out.attr = KernelAttributes(attributes, call.nodeid());
  out.attr.ino = state_.caches.inodes.NumberOf(call.nodeid(), out.attr.ino);
  return call.Reply({AsBytes(out)});
}

}  // namespace dafs::fuse
