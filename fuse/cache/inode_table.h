// The nodes that the kernel knows: node id <-> filehandle. For each node the table keeps the
// kernel's lookup count, the place where it was last found, and what was last sent to the kernel
// about it.
//
// Node ids count upwards and are never reused, so an id that the kernel has forgotten is never
// found. Every mount begins with the same ids, so each mount has its own generation. The root is
// node 1 and is never forgotten. Its generation is 0 in every mount (the kernel sets it).
//
// Thread-safe. Each shard has a mutex, held for a few lookups and never across a call to the server
// or a reply. All data is passed by value: a node may be forgotten while an abandoned call on it is
// still outstanding.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/state/write_tracker.h"
#include "fuse/cache/node_names.h"
#include "fuse/cache/own_moves.h"
#include "fuse/cache/place.h"
#include "fuse/options/options.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::fuse {

inline constexpr uint64_t kRootNode = 1;

struct InodeView {
  uint64_t nodeid = 0;
  wire::FileHandle handle;
  wire::ObjectType type = wire::ObjectType::kInvalid;
  uint64_t file_id = 0;
};

// The thread that found a name, and when.
struct Asker {
  uint32_t thread = 0;  // 0: found without a lookup
  absl::Time at = absl::InfinitePast();
};

// The kernel's request that is answered with attributes. The kernel discards attributes if it
// requested them before it accepted others. If two threads ask at once, only the first reply
// counts.
struct KernelQuestion {
  uint32_t thread = 0;  // 0: unknown
  absl::Time arrived = absl::InfiniteFuture();
};

// Extended attributes that are requested often, and that most files do not have.
enum class Absent : uint8_t { kCapability, kSelinux, kAccessAcl, kDefaultAcl };

class InodeTable {
 public:
  explicit InodeTable(const CacheTimes& times)
      : times_(times), generation_(std::random_device()()) {}
  InodeTable(const InodeTable&) = delete;
  InodeTable& operator=(const InodeTable&) = delete;

  // Call once, before the first request.
  void SetRoot(const wire::FileHandle& handle, const wire::FileAttributes& attributes);

  // Returns the node of `handle`, found at `place`. Creates the node if it is not known. Counts one
  // lookup.
  //
  // A directory has one dentry in the kernel. If another client has moved the directory to another
  // parent, the kernel moves the dentry when a lookup finds it there. The kernel cannot do so while
  // it holds the lock of renames, that is, if the name is an argument of rename(2): it repeats the
  // lookup, and then fails with ESTALE. So the directory gets a new node if the thread repeats the
  // lookup soon, and has not used the node in between (Accepted). The old node stays valid for its
  // users.
  uint64_t Remember(const wire::FileHandle& handle, const wire::FileAttributes& attributes,
                    const Place& place, const Asker& asker = {});
  // `thread` uses the node, so the kernel has accepted the place where it was found.
  void Accepted(uint64_t nodeid, uint32_t thread);
  // A file whose node was forgotten before its data was committed.
  struct Gone {
    wire::FileHandle handle;
    std::shared_ptr<client::WriteTracker> writes;
  };
  // The kernel drops `count` lookups. The last one removes the node. Unknown ids are ignored, and a
  // count that is too large drops all lookups.
  std::optional<Gone> Forget(uint64_t nodeid, uint64_t count);

  // The generation is part of a file handle (name_to_handle_at(2)). By it the kernel distinguishes
  // our nodes from those of another mount, or of an earlier mount at the same place. Random; 0 for
  // the root.
  uint32_t GenerationOf(uint64_t nodeid) const { return nodeid == kRootNode ? 0 : generation_; }

  std::optional<InodeView> Find(uint64_t nodeid) const;
  // The node of `handle`, without counting a lookup; 0 if it is not known.
  uint64_t NodeOf(const wire::FileHandle& handle) const;
  // Where the node was last found. It may have been renamed or removed since. Empty: unknown.
  Place PlaceOf(uint64_t nodeid) const;
  // The number that stat(2) shows for an object with `file_id` at the server: for a node, and for
  // an object in `fs` (inode_number.h).
  uint64_t NumberOf(uint64_t nodeid, uint64_t file_id) const;
  uint64_t NumberIn(const wire::FsHandle& fs, uint64_t file_id) const;
  // Records that `attributes` of the node are about to be sent to the kernel at `now`. Returns how
  // long the kernel may cache them. That is the least cache time at first. It doubles, up to the
  // greatest, each time the kernel asks again and nothing has changed (nfs(5)).
  absl::Duration Told(uint64_t nodeid, const wire::FileAttributes& attributes, absl::Time now,
                      const KernelQuestion& question = {});
  // The attributes of a directory that were last sent to the kernel. nullopt for other nodes, and
  // if none were sent.
  std::optional<wire::FileAttributes> LastToldOfDirectory(uint64_t nodeid) const;
  // The kernel did not accept the attributes after all, or has learned that the node was removed.
  void NotTold(uint64_t nodeid);
  // Counts one more lookup of a node that is opened without an OPEN (a link, a FIFO), if the
  // attributes last sent to the kernel are still valid. Returns them, and for how long they are
  // valid.
  struct Again {
    wire::FileAttributes attributes;
    absl::Duration valid_for;
  };
  std::optional<Again> LookUpAgain(uint64_t nodeid, absl::Time now);
  // The file was opened and has this CHANGE. Returns whether the kernel's cached attributes are
  // still current (close-to-open): `change` was last sent to the kernel, which has certainly
  // accepted it.
  bool KernelIsCurrent(uint64_t nodeid, uint64_t change) const;
  // The kernel's cached attributes were invalidated. It accepts no attributes that were sent
  // before.
  void KernelForgot(uint64_t nodeid);
  // A thread has accepted its reply within this time, so that a reply to a later request is
  // certainly accepted.
  static constexpr absl::Duration kTaken = absl::Milliseconds(50);

  // inode_table_names.cc: the functions of NodeNames, for a node.
  // The kernel may use `place` as a name of the file, which has CHANGE `change`, until `until`. The
  // server said so in its reply to a request sent at `asked`.
  void NameTold(uint64_t nodeid, const Place& place, uint64_t change, absl::Time asked,
                absl::Time until);
  Places NamesLikelyOld(uint64_t nodeid, absl::Time now);
  Places NamesNotSeenAt(uint64_t nodeid, uint64_t change, absl::Time now);
  void ConfirmName(uint64_t nodeid, const Place& place, uint64_t change, absl::Time now);
  void LoseName(uint64_t nodeid, const Place& place);
  bool AnyNameLost(uint64_t nodeid, uint64_t change, absl::Time now) const;
  // Renames and removals that the kernel has applied already.
  OwnMoves& own_moves() { return own_moves_; }

  // Like KernelIsCurrent, but for the kernel's pages, which may be older than the attributes sent
  // since. The kernel keeps its pages across an open if the file has the CHANGE that PagesAre
  // recorded.
  bool PagesAreCurrent(uint64_t nodeid, uint64_t change) const;
  // The kernel has no page older than `change`. A value smaller than the last one does no harm.
  void PagesAre(uint64_t nodeid, uint64_t change);

  // The state of this mount's changes to a node when a request about it was sent to the server.
  struct Moment {
    uint64_t touches = 0;
    uint64_t removals = 0;  // of names that may be those of such a node
  };

  // A change by this mount of names in a directory, or of data of a file, while it is in progress.
  struct Change {
    uint64_t number = 0;
    bool alone = false;  // no other was in progress when it began
    absl::Time at;
    Moment begun;
    bool shows_set_id = false;  // ShowsSetId when it began
  };
  Change BeginChange(uint64_t nodeid, absl::Time now);
  // `after`: the attributes after the change; none of them valid: not known. They are kept for the
  // kernel, which usually requests them next. They are not kept if another change of this mount was
  // in progress meanwhile, or if attributes of the node were sent to the kernel (for a LINK, say):
  // it is then unknown which attributes are newer. `removals`: how often DirectoryRemoved was
  // called for this change since it began. Returns ShowsSetId.
  bool EndChange(uint64_t nodeid, const Change& change, wire::FileAttributes after, absl::Time now,
                 uint64_t removals = 0);

  // For attributes that come with the reply to another request, and are not sent to the kernel with
  // it. KeepFresh keeps them like EndChange, with `now` from before that request. They serve the
  // kernel's next request, unless this mount has changed the node since, or a name of any file (of
  // any directory, for a directory) was removed.
  Moment MomentOf(uint64_t nodeid) const;
  // If `thread` is not 0, they serve only the next request of that thread, and only for a moment.
  void KeepFresh(uint64_t nodeid, const Moment& asked, const wire::FileAttributes& attributes,
                 absl::Time now, uint32_t thread = 0);
  // Invalidates the kept attributes: a read or a lock has happened, and the kernel expects to see
  // it in them.
  void DropFresh(uint64_t nodeid);
  // A name was removed or given to another file, or is about to be. It is not known here which file
  // loses it. That file's link count and ctime change.
  void NameRemoved() { removals_.fetch_add(1, std::memory_order_acq_rel); }
  // The same for a name that may be that of a directory.
  void DirectoryRemoved() { directory_removals_.fetch_add(1, std::memory_order_acq_rel); }

  // Takes out the kept attributes, if they are still valid. The kernel may cache them for
  // `valid_for`, as if they had been sent when they arrived. Attributes of a file are kept for
  // kFreshFileFor only.
  static constexpr absl::Duration kFreshFileFor = absl::Milliseconds(100);
  struct Fresh {
    wire::FileAttributes attributes;
    absl::Duration valid_for;
    bool of_change = false;  // from EndChange
  };
  std::optional<Fresh> TakeFresh(uint64_t nodeid, absl::Time now,
                                 const KernelQuestion& question = {});
  // Whether the last event of the node was a change by this mount whose result was not sent to the
  // kernel.
  bool ChangedUntold(uint64_t nodeid) const;

  // This mount has changed the node (or, for a directory, names in it), or is about to. Returns
  // ShowsSetId.
  bool Touch(uint64_t nodeid, absl::Time now);
  // Whether this mount changed it at or after `when`. False if the node is not known.
  bool TouchedSince(uint64_t nodeid, absl::Time when) const;
  // Whether attributes were sent to the kernel, or this mount changed the node, at or after `when`.
  // A reply of the server from `when` may then be older than what the kernel has.
  bool NewsSince(uint64_t nodeid, absl::Time when) const;

  // The kernel was sent `next` right after `nodeid` in a listing of their directory. Programs visit
  // the files in this order. 0: `nodeid` was the last, or its successor is unknown.
  void ListedBehind(uint64_t nodeid, uint64_t next);
  uint64_t NextListed(uint64_t nodeid) const;

  // Whether there are cache times, within which attributes are used without a request.
  bool KeepsFiles() const {
    return times_.reg_min > absl::ZeroDuration() && times_.dir_min > absl::ZeroDuration();
  }

  // The node does not have the attribute. The server said so in its reply to a request sent at
  // `asked`, or the node was created then.
  void NoteAbsent(uint64_t nodeid, Absent attribute, absl::Time asked);
  // Whether that is still valid at `now`. It is valid for the least cache time in any case, and
  // beyond that while no change is visible (CHANGE is the value sent to the kernel before the
  // request). Changes by this mount end it at once. Changes by other clients end it when the kernel
  // receives the new attributes.
  bool KnownAbsent(uint64_t nodeid, Absent attribute, absl::Time now) const;
  // This mount has set extended attributes of the node. Replies to requests sent before `now` no
  // longer count.
  void ForgetAbsent(uint64_t nodeid, absl::Time now);

  // The uncommitted writes of the file. The table and the open files that write share them: a write
  // may come through any of these, and may outlive the node. If the kernel forgets a file and looks
  // it up again, the file keeps its tracker while that is in use, or has an error that no fsync has
  // reported.
  std::shared_ptr<client::WriteTracker> WritesOf(uint64_t nodeid);
  // Calls WriteTracker::NoteOwnerChange, if the node has a tracker.
  void NoteOwnerChange(uint64_t nodeid);

  size_t size() const;

  // The number of nodes that the kernel has forgotten so far.
  uint64_t forgotten() const { return forgotten_.load(std::memory_order_relaxed); }
  // Frees unused capacity after many nodes were forgotten. Holds each shard's mutex while its nodes
  // are moved.
  void ShrinkToFit();

 private:
  static constexpr size_t kAbsents = 4;
  struct AbsentAttribute {
    absl::Time asked = absl::InfinitePast();
    bool has_change = false;
    uint64_t change = 0;
  };
  struct Inode {
    wire::FileHandle handle;
    wire::ObjectType type = wire::ObjectType::kInvalid;
    uint64_t file_id = 0;
    uint64_t lookups = 0;
    NodeNames names;
    std::unique_ptr<Asker> moved;  // the lookup that found another parent; null: accepted
    bool told = false;             // the told_ fields are set: attributes were sent to the kernel
    bool told_set_id = false;      // for a file with set-id bits; until the kernel forgets its mode
    bool unsure = false;           // the kernel may not have accepted told_change
    uint32_t answered_thread = 0;  // the last request that was answered with attributes
    absl::Time answered_at = absl::InfinitePast();
    std::unique_ptr<absl::Time> unsure_until;  // for requests that arrived before; null: for none
    uint64_t told_change = 0;
    std::optional<uint64_t> pages_change;
    absl::Time told_at = absl::InfinitePast();
    std::unique_ptr<wire::FileAttributes> last_told;  // of all types except regular files
    absl::Duration valid_for;
    absl::Time touched_at = absl::InfinitePast();
    uint64_t next_listed = 0;
    std::array<AbsentAttribute, kAbsents> absent;
    absl::Time absent_from = absl::InfinitePast();  // replies to earlier requests do not count
    uint64_t changes_begun = 0;
    uint64_t changes_ended = 0;
    uint64_t touches = 0;  // our changes, counted at begin and end
    bool changed_untold = false;
    std::unique_ptr<wire::FileAttributes> fresh;  // as of fresh_at
    absl::Time fresh_at = absl::InfinitePast();
    uint64_t fresh_removals = 0;  // RemovalsOf at that time
    bool fresh_of_change = false;
    uint32_t fresh_for = 0;  // for this thread's next request; 0: for any thread
    std::shared_ptr<client::WriteTracker> writes;
  };
  // A node and its handle are in the same shard. The low bits of the node id are its index.
  static constexpr uint64_t kShards = 16;
  struct Shard {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, std::unique_ptr<Inode>> by_node ABSL_GUARDED_BY(mutex);
    absl::flat_hash_map<wire::FileHandle, uint64_t> by_handle ABSL_GUARDED_BY(mutex);
    // For files that no longer have a node.
    absl::flat_hash_map<wire::FileHandle, std::shared_ptr<client::WriteTracker>> writes
        ABSL_GUARDED_BY(mutex);
  };
  // The number of trackers that a shard keeps for files without a node.
  static constexpr size_t kMostWrites = 256;

  static void KeepWrites(Shard& shard, const Inode& inode)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);
  static uint64_t ShardOfHandle(const wire::FileHandle& handle);
  Shard& ShardOf(uint64_t nodeid) const { return shards_[nodeid % kShards]; }
  // Runs `use(Inode*)` under the shard's mutex; nullptr if the node is not known.
  template <class F>
  auto With(uint64_t nodeid, F&& use) const {
    Shard& shard = ShardOf(nodeid);
    absl::MutexLock lock(&shard.mutex);
    auto it = shard.by_node.find(nodeid);
    return use(it == shard.by_node.end() ? nullptr : it->second.get());
  }
  // Whether the kernel may show set-id bits of the file. A change of its data may have cleared them
  // at the server, and the kernel does not request the mode after such a change.
  static bool ShowsSetId(const Inode& inode) { return inode.told_set_id; }
  static void Touched(Inode& inode, absl::Time now);
  uint64_t RemovalsOf(const Inode& inode) const {
    return inode.type == wire::ObjectType::kDir ? directory_removals_ : removals_;
  }
  // The kernel has accepted the place where a directory was found, or the node is removed.
  void EndMove(Inode& inode);
  // Records that a node was found again. Returns false if the kernel does not accept it at `place`.
  bool FoundAt(Inode& inode, const Place& place, const Asker& asker);
  // Keeps `attributes` as `fresh`, for TakeFresh.
  void Keep(Inode& inode, wire::FileAttributes attributes, uint64_t removals, absl::Time now);
  // Sets the told_ fields. Returns how long the kernel may cache `attributes`, as Told does.
  absl::Duration Tell(Inode& inode, const wire::FileAttributes& attributes, absl::Time at);
  // Sets `unsure`: whether the kernel may discard this reply (see KernelQuestion).
  static void Answers(Inode& inode, uint64_t change, const KernelQuestion& question,
                      absl::Time now);

  const CacheTimes times_;
  const uint32_t generation_;  // the kernel keeps 32 bits and compares them with each reply
  wire::FsHandle root_fs_;     // set before the first request
  // Whether a node lies in another file system. Publishes nothing: a thread that uses such a node
  // has received it in a reply.
  std::atomic<bool> several_fs_{false};
  // Gives ids only; publishes nothing. The first is at least kShards: node 1 is the root.
  std::atomic<uint64_t> next_{1};
  // Counts removals of names, at begin and end. Publishes nothing: a reply of the server arrives
  // between a count and the value that is compared with it.
  std::atomic<uint64_t> removals_{0};
  std::atomic<uint64_t> directory_removals_{0};
  OwnMoves own_moves_;
  // Nodes that have `moved`. Publishes nothing: a thread that uses a node has received it in a
  // reply.
  std::atomic<uint64_t> moved_{0};
  std::atomic<uint64_t> forgotten_{0};  // counts, publishes nothing
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace dafs::fuse
