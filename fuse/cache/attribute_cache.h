// The attributes of the nodes that the kernel knows: those that it caches, and for how long, and
// those that the server has returned and that the kernel has not requested yet. This mount's own
// changes decide whether either are still current.
//
// Thread-safe. Nothing blocks. All data is passed by value: a node may be forgotten while an
// abandoned call on it is still outstanding. A node that is not known has no attributes.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/state/node.h"
#include "fuse/cache/inode_table.h"
#include "fuse/cache/promise_rules.h"
#include "fuse/options/options.h"

namespace dafs::fuse {

class AttributeCache {
 public:
  // All must outlive it.
  AttributeCache(InodeTable& inodes, const CacheTimes& times, const PromiseRules& rules)
      : inodes_(inodes), times_(times), rules_(rules) {}
  AttributeCache(const AttributeCache&) = delete;
  AttributeCache& operator=(const AttributeCache&) = delete;

  // Whether there are cache times, within which attributes are used without a request.
  bool KeepsFiles() const {
    return times_.reg_min > absl::ZeroDuration() && times_.dir_min > absl::ZeroDuration();
  }

  // The attributes that the kernel has.

  // Records that `attributes` of the node are about to be sent to the kernel at `now`, in reply to
  // a request that `arrived` then. Returns how long the kernel may cache them, see
  // KernelView::Send. Their promise decides that: if the server has announced a change since, that
  // is zero. `hides_change` (may be null): true if another client has changed the file but size and
  // mtime are as before, so that the kernel would keep old pages and the caller must drop them. If
  // mode, owner or group differ too, or are not known, the next call says so; the kernel then asks
  // again at once.
  absl::Duration Sent(uint64_t nodeid, const client::Attributes& attributes, absl::Time now,
                      absl::Time arrived = absl::InfiniteFuture(), bool* hides_change = nullptr);
  // Call before the drop of pages that `hides_change` requested, with the `promise` of the
  // attributes. Returns false if a change was announced since: the drop would discard attributes
  // from after that change. Then `hides_change` is true again for the next ones.
  bool MayDropPages(uint64_t nodeid, const client::Promise& promise);
  // The kernel did not accept the attributes after all, or has learned that the node was removed.
  void NotAccepted(uint64_t nodeid);
  // The kernel's cached attributes were invalidated. It accepts no attributes that were sent
  // before.
  void Invalidated(uint64_t nodeid);
  // Whether the attributes that the kernel was sent last show all changes by others: no other
  // client has changed the node since, and only clients do.
  bool KernelHasOthersChanges(uint64_t nodeid) const;
  // Whether the attributes of the node are promised, and only clients change them.
  bool IsPromised(uint64_t nodeid) const;
  // Likewise, and a GETATTR of the kernel at `now` can be answered from them without a request to
  // the server.
  bool IsAnswered(uint64_t nodeid, absl::Time now) const;
  // The nodes of a shard of the table of which the kernel may use attributes at `now`.
  std::vector<uint64_t> KeptByKernel(uint64_t shard, absl::Time now) const;
  // The file was opened and has this CHANGE. Returns whether the kernel's cached attributes are
  // still current (close-to-open): `change` was last sent to the kernel, which has certainly
  // accepted it.
  bool KernelIsCurrent(uint64_t nodeid, uint64_t change) const;
  // The server has returned attributes of a directory that are not sent to the kernel now.
  void Learn(uint64_t nodeid, const client::Attributes& attributes);
  // The last known attributes of a directory. nullopt for other nodes.
  std::optional<client::Attributes> LastOfDirectory(uint64_t nodeid) const;

  // This mount's changes.

  // This mount has changed the node (or, for a directory, names in it), or is about to. Returns
  // KernelView::shows_set_id.
  bool MarkChanged(uint64_t nodeid, absl::Time now);
  OwnChanges::Change BeginChange(uint64_t nodeid, absl::Time now);
  // `after`: the attributes after the change; none of them valid: not known. They are kept for the
  // kernel, which usually requests them next. They are not kept if another change of this mount was
  // in progress meanwhile, or if attributes of the node were sent to the kernel (for a LINK, say):
  // it is then unknown which attributes are newer. `removals`: how often DirectoryRemoved was
  // called for this change since it began. Returns KernelView::shows_set_id.
  bool EndChange(uint64_t nodeid, const OwnChanges::Change& change, client::Attributes after,
                 absl::Time now, uint64_t removals = 0);
  // Whether a change by this mount is in progress.
  bool IsChanging(uint64_t nodeid) const;
  // Whether this mount changed it at or after `when`. False if the node is not known.
  bool ChangedSince(uint64_t nodeid, absl::Time when) const;
  // Whether attributes were sent to the kernel, or this mount changed the node, at or after `when`.
  // A reply of the server from `when` may then be older than what the kernel has.
  bool NewsSince(uint64_t nodeid, absl::Time when) const;
  // Whether this mount has changed the node since attributes were last sent to the kernel.
  bool KernelLacksChange(uint64_t nodeid) const;
  // A name was removed or given to another file, or is about to be. It is not known here which file
  // loses it. That file's link count and ctime change.
  void NameRemoved() { removals_.fetch_add(1, std::memory_order_acq_rel); }
  // The same for a name that may be that of a directory.
  void DirectoryRemoved() { directory_removals_.fetch_add(1, std::memory_order_acq_rel); }

  // Attributes that arrived with the reply to another request, and were not sent to the kernel.

  // Call before such a request is sent.
  OwnChanges::Moment MomentOf(uint64_t nodeid) const;
  // Keeps them like EndChange, with `now` from before that request. They serve the kernel's next
  // request, unless this mount has changed the node since, or a name of any file (of any directory,
  // for a directory) was removed.
  void KeepPrefetched(uint64_t nodeid, const OwnChanges::Moment& asked,
                      const client::Attributes& attributes, absl::Time now);
  // Keeps those that the kernel was sent last, if they still are those of the server: a directory
  // was listed without a request, after which the kernel requests its access time.
  void KeepSent(uint64_t nodeid, absl::Time now);
  // Invalidates the kept attributes: a read or a lock has happened, and the kernel expects to see
  // it in them.
  void InvalidatePrefetched(uint64_t nodeid);
  // Takes out the kept attributes, if they are still valid. The kernel may cache them for
  // `valid_for`, as if they had been sent when they arrived.
  struct Prefetched {
    client::Attributes attributes;
    absl::Duration valid_for;
  };
  std::optional<Prefetched> TakePrefetched(uint64_t nodeid, absl::Time now,
                                           absl::Time arrived = absl::InfiniteFuture());

 private:
  static void MarkChanged(Inode& inode, absl::Time now);
  bool IsStale(const Inode& inode, absl::Time now) const;
  bool HasOthersChanges(const Inode& inode) const;
  // Whether the attributes that the kernel was sent last are promised, and still valid at `now`.
  bool AreSent(const Inode& inode, absl::Time now) const;
  uint64_t RemovalsOf(const Inode& inode) const {
    return inode.type == wire::ObjectType::kDir ? directory_removals_ : removals_;
  }

  InodeTable& inodes_;
  const CacheTimes times_;
  const PromiseRules& rules_;
  // Counts removals of names, at begin and end. Publishes nothing: a reply of the server arrives
  // between a count and the value that is compared with it.
  std::atomic<uint64_t> removals_{0};
  std::atomic<uint64_t> directory_removals_{0};
};

}  // namespace dafs::fuse
