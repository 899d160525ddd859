// The nodes the kernel knows: node id <-> filehandle, with the kernel's lookup counts, where each
// node was last found, and what the kernel was last told about it.
//
// Node ids count upwards and are never used again: an id the kernel has forgotten can only miss.
// Every mount begins them alike, so each has a generation of its own. The root is node 1, is never
// forgotten, and has the generation 0 in every mount (the kernel gives it).
//
// Thread-safe: shards, each with a mutex that is held for a few lookups and never across a call or
// an answer. Everything goes in and out by value: a node may be forgotten while a call on it that
// was given up is still out.
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

// Who found a name, and when.
struct Asker {
  uint32_t thread = 0;  // 0: nobody looked for this name
  absl::Time at = absl::InfinitePast();
};

// To which question of the kernel attributes are the answer. It drops attributes that it has asked
// for before it took others: of two threads that ask at once, those that are told first count.
struct KernelQuestion {
  uint32_t thread = 0;  // 0: not known
  absl::Time arrived = absl::InfiniteFuture();
};

// Extended attributes that are asked for all the time, and that most files do not have.
enum class Absent : uint8_t { kCapability, kSelinux, kAccessAcl, kDefaultAcl };

class InodeTable {
 public:
  explicit InodeTable(const CacheTimes& times)
      : times_(times), generation_(std::random_device()()) {}
  InodeTable(const InodeTable&) = delete;
  InodeTable& operator=(const InodeTable&) = delete;

  // Once, before the first request.
  void SetRoot(const wire::FileHandle& handle, const wire::FileAttributes& attributes);

  // The node of `handle`, found at `place`; a new one if it is not known. Counts one lookup.
  //
  // A directory has one place in the kernel. It moves one that is found in another directory, which
  // another client has renamed, but not while it holds the lock of renames, that is, where the name
  // is one of those that rename(2) is about: it looks once more then, and fails with ESTALE. So who
  // asks once more soon, and has done nothing with the node in between (Accepted), is given a new
  // node for the directory. The old one stays for whoever still uses it.
  uint64_t Remember(const wire::FileHandle& handle, const wire::FileAttributes& attributes,
                    const Place& place, const Asker& asker = {});
  // `thread` uses the node: the kernel has it where it was found.
  void Accepted(uint64_t nodeid, uint32_t thread);
  // A file whose node has gone before its data was committed.
  struct Gone {
    wire::FileHandle handle;
    std::shared_ptr<client::WriteTracker> writes;
  };
  // The kernel gives back `count` lookups; the node goes with the last. Unknown ids and counts that
  // are too large are taken as all there is.
  std::optional<Gone> Forget(uint64_t nodeid, uint64_t count);

  // With it in a file handle (name_to_handle_at(2)) the kernel tells a node of another mount, or of
  // an earlier one at the same place, from ours. Random; of the root 0.
  uint32_t GenerationOf(uint64_t nodeid) const { return nodeid == kRootNode ? 0 : generation_; }

  std::optional<InodeView> Find(uint64_t nodeid) const;
  // The node of `handle`, without counting; 0 if it is not known.
  uint64_t NodeOf(const wire::FileHandle& handle) const;
  // Where the node was last found; it may have been renamed or removed since. Empty: unknown.
  Place PlaceOf(uint64_t nodeid) const;
  // The number that stat(2) shows of what has `file_id` at the server: of a node, and of what lies
  // in `fs` (inode_number.h).
  uint64_t NumberOf(uint64_t nodeid, uint64_t file_id) const;
  uint64_t NumberIn(const wire::FsHandle& fs, uint64_t file_id) const;
  // `attributes` of the node are about to be told to the kernel at `now`. Returns how long the
  // kernel may keep them: from the least cache time, doubled up to the greatest each time it asks
  // again and nothing has changed (nfs(5)).
  absl::Duration Told(uint64_t nodeid, const wire::FileAttributes& attributes, absl::Time now,
                      const KernelQuestion& question = {});
  // What the kernel was told last of a directory, at or after `since`; nothing for other nodes and
  // before it was told.
  std::optional<wire::FileAttributes> LastToldOfDirectory(
      uint64_t nodeid, absl::Time since = absl::InfinitePast()) const;
  // The kernel did not take them after all, or has learned that the node has gone.
  void NotTold(uint64_t nodeid);
  // Counts one more lookup of a node of this kind that asks for no OPEN (a link, a FIFO), if what
  // the kernel was told of it last is still good: that, and for how long.
  struct Again {
    wire::FileAttributes attributes;
    absl::Duration valid_for;
  };
  std::optional<Again> LookUpAgain(uint64_t nodeid, absl::Time now);
  // The file was opened and has this CHANGE: is it what the kernel was told last, and has surely
  // taken, so that its cached attributes are still true (close-to-open)?
  bool KernelIsCurrent(uint64_t nodeid, uint64_t change) const;
  // The kernel was made to forget what it had: of what it was told before it takes nothing more.
  void KernelForgot(uint64_t nodeid);
  // A thread has taken its answer by then, so that those who ask later are told for sure.
  static constexpr absl::Duration kTaken = absl::Milliseconds(50);

  // inode_table_names.cc: as NodeNames says it of a node.
  // The kernel is told, until `until`, that `place` leads to the file, which has `change`: so the
  // server said to what it was asked at `asked`.
  void NameTold(uint64_t nodeid, const Place& place, uint64_t change, absl::Time asked,
                absl::Time until);
  Places NamesLikelyOld(uint64_t nodeid, absl::Time now);
  Places NamesNotSeenAt(uint64_t nodeid, uint64_t change, absl::Time now);
  void ConfirmName(uint64_t nodeid, const Place& place, uint64_t change, absl::Time now);
  void LoseName(uint64_t nodeid, const Place& place);
  bool AnyNameLost(uint64_t nodeid, uint64_t change, absl::Time now) const;
  // What the kernel has followed.
  OwnMoves& own_moves() { return own_moves_; }

  // The same of its pages, which may be older than the attributes it was told since. The kernel
  // keeps them over an open that finds the CHANGE they are known to be as new as.
  bool PagesAreCurrent(uint64_t nodeid, uint64_t change) const;
  // The kernel has no page older than `change`. A smaller value than the last is no harm.
  void PagesAre(uint64_t nodeid, uint64_t change);

  // How far what we did to the node had come, when the server was asked something about it.
  struct Moment {
    uint64_t touches = 0;
    uint64_t removals = 0;  // of names of its kind of node
  };

  // A change by us of names in a directory, or of data of a file, while it is under way.
  struct Change {
    uint64_t number = 0;
    bool alone = false;  // no other was under way when it began
    absl::Time at;
    Moment begun;
    bool shows_set_id = false;  // as ShowsSetId when it began
  };
  Change BeginChange(uint64_t nodeid, absl::Time now);
  // `after`: the attributes behind the change; nothing valid in them: not known. They are kept for
  // the kernel, which asks for them next, unless anything else of ours was under way meanwhile, or
  // the kernel was told of the node (by a LINK, say): whose attributes are the later ones nobody
  // could say. `removals`: how often DirectoryRemoved was called for this change since it began.
  // Returns ShowsSetId.
  bool EndChange(uint64_t nodeid, const Change& change, wire::FileAttributes after, absl::Time now,
                 uint64_t removals = 0);

  // For attributes that come with the answer to something else, of which the kernel is told
  // nothing: `now` is before the question, and they are kept likewise if nothing of ours has
  // happened to the node since, and no name of any file (of any directory, for a directory) was
  // taken away.
  Moment MomentOf(uint64_t nodeid) const;
  // For the next question of `thread` alone, if it is not 0, and for a moment.
  void KeepFresh(uint64_t nodeid, const Moment& asked, const wire::FileAttributes& attributes,
                 absl::Time now, uint32_t thread = 0);
  // Something that the kernel expects to see in the attributes has happened: a read, a lock.
  void DropFresh(uint64_t nodeid);
  // A name was taken away or given to another file, or is about to be; of which file is not known
  // here, and it is in the link count and ctime.
  void NameRemoved() { removals_.fetch_add(1, std::memory_order_acq_rel); }
  // The same where it may be the name of a directory.
  void DirectoryRemoved() { directory_removals_.fetch_add(1, std::memory_order_acq_rel); }
  // How often either was called.
  uint64_t Removals() const { return removals_ + directory_removals_; }

  // What was kept and is still good, once: the kernel keeps it as long as is said there, as if it
  // had been told when it came. That of a file is kept for a moment only.
  static constexpr absl::Duration kFreshFileFor = absl::Milliseconds(100);
  struct Fresh {
    wire::FileAttributes attributes;
    absl::Duration valid_for;
    bool of_change = false;  // from EndChange
  };
  std::optional<Fresh> TakeFresh(uint64_t nodeid, absl::Time now,
                                 const KernelQuestion& question = {});
  // Whether the last that happened to the node was a change whose outcome the kernel was not told.
  bool ChangedUntold(uint64_t nodeid) const;

  // We have changed the node (or, for a directory, names in it), or are about to. Returns
  // ShowsSetId.
  bool Touch(uint64_t nodeid, absl::Time now);
  // Whether we changed it at or after `when`. False if the node is not known.
  bool TouchedSince(uint64_t nodeid, absl::Time when) const;
  // Whether the kernel was told of it, or we changed it, at or after `when`: what the server said
  // at `when` may be older than what the kernel knows.
  bool NewsSince(uint64_t nodeid, absl::Time when) const;

  // The kernel was told of `next` behind `nodeid` when it listed their directory: programs go
  // through them in this order. 0: nothing was behind it, or is known.
  void ListedBehind(uint64_t nodeid, uint64_t next);
  uint64_t NextListed(uint64_t nodeid) const;

  // Whether there is a cache time in which what is known of a file is good without asking.
  bool KeepsFiles() const {
    return times_.reg_min > absl::ZeroDuration() && times_.dir_min > absl::ZeroDuration();
  }

  // The node did not have the attribute: the server was asked at `asked`, or the node was new then.
  void NoteAbsent(uint64_t nodeid, Absent attribute, absl::Time asked);
  // Whether that is still good at `now`: as long as nothing is seen to have changed (CHANGE is what
  // the kernel was told before the question), and for the least cache time whatever has changed.
  // Changes of ours end it at once, those of other clients when the kernel sees their attributes.
  bool KnownAbsent(uint64_t nodeid, Absent attribute, absl::Time now) const;
  // We have set extended attributes of the node: what was asked before `now` does not count.
  void ForgetAbsent(uint64_t nodeid, absl::Time now);

  // What was written to the file and not committed. Shared by the table and the open files that
  // write: a write may come through any of them, and outlive the kernel's interest in the node. A
  // file that the kernel forgets and looks up again keeps its own while that is in use, or has an
  // error that no fsync has reported.
  std::shared_ptr<client::WriteTracker> WritesOf(uint64_t nodeid);
  // WriteTracker::NoteOwnerChange, if the node has one.
  void NoteOwnerChange(uint64_t nodeid);

  size_t size() const;

  // How many nodes the kernel has forgotten so far.
  uint64_t forgotten() const { return forgotten_.load(std::memory_order_relaxed); }
  // Frees what the table holds beyond its nodes after many were forgotten. Holds each shard for as
  // long as its nodes take to be moved.
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
    std::unique_ptr<Asker> moved;  // from another directory, as far as the kernel knows
    bool told = false;
    bool told_set_id = false;  // a file, with set-id bits; until the kernel forgets the mode
    bool unsure = false;       // whether it has taken told_change
    uint32_t answered_thread = 0;
    absl::Time answered_at = absl::InfinitePast();
    std::unique_ptr<absl::Time> unsure_until;  // for who has asked before; null: for nobody
    uint64_t told_change = 0;
    std::optional<uint64_t> pages_change;
    absl::Time told_at = absl::InfinitePast();
    std::unique_ptr<wire::FileAttributes> last_told;  // of all but a file
    absl::Duration valid_for;
    absl::Time touched_at = absl::InfinitePast();
    uint64_t next_listed = 0;
    std::array<AbsentAttribute, kAbsents> absent;
    absl::Time absent_from = absl::InfinitePast();  // what was asked before does not count
    uint64_t changes_begun = 0;
    uint64_t changes_ended = 0;
    uint64_t touches = 0;  // counts what we do to it, begun and ended
    bool changed_untold = false;
    std::unique_ptr<wire::FileAttributes> fresh;  // as of fresh_at
    absl::Time fresh_at = absl::InfinitePast();
    uint64_t fresh_removals = 0;  // what RemovalsOf it was then
    bool fresh_of_change = false;
    uint32_t fresh_for = 0;  // this thread's next question; 0: anybody's
    std::shared_ptr<client::WriteTracker> writes;
  };
  // A node and its handle are in one shard: the node id's low bits say which.
  static constexpr uint64_t kShards = 16;
  struct Shard {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, std::unique_ptr<Inode>> by_node ABSL_GUARDED_BY(mutex);
    absl::flat_hash_map<wire::FileHandle, uint64_t> by_handle ABSL_GUARDED_BY(mutex);
    // Of files that have no node any more.
    absl::flat_hash_map<wire::FileHandle, std::shared_ptr<client::WriteTracker>> writes
        ABSL_GUARDED_BY(mutex);
  };
  // The trackers that a shard keeps for files without a node.
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
  // Whether the kernel may show set-id bits of the file. A change of its data may have removed them
  // at the server, and the kernel does not ask for the mode after such a change.
  static bool ShowsSetId(const Inode& inode) { return inode.told_set_id; }
  static void Touched(Inode& inode, absl::Time now);
  uint64_t RemovalsOf(const Inode& inode) const {
    return inode.type == wire::ObjectType::kDir ? directory_removals_ : removals_;
  }
  void EndMove(Inode& inode);
  bool FoundAt(Inode& inode, const Place& place, const Asker& asker);
  void Keep(Inode& inode, wire::FileAttributes attributes, uint64_t removals, absl::Time now);
  absl::Duration Tell(Inode& inode, const wire::FileAttributes& attributes, absl::Time at);
  static void Answers(Inode& inode, uint64_t change, const KernelQuestion& question,
                      absl::Time now);

  const CacheTimes times_;
  const uint32_t generation_;  // the kernel keeps 32 bits and compares them with what it is told
  wire::FsHandle root_fs_;     // set before the first request
  // Whether a node lies in another file system. Publishes nothing: who asks of such a node has been
  // given it.
  std::atomic<bool> several_fs_{false};
  // Gives ids only; publishes nothing. The first is kShards or more: node 1 is the root.
  std::atomic<uint64_t> next_{1};
  // Counts names taken away, begun and ended; publishes nothing: an answer of the server stands
  // between this and what is compared with it.
  std::atomic<uint64_t> removals_{0};
  std::atomic<uint64_t> directory_removals_{0};
  OwnMoves own_moves_;
  // Nodes that are `moved`. Publishes nothing: a thread that uses a node has seen it in an answer.
  std::atomic<uint64_t> moved_{0};
  std::atomic<uint64_t> forgotten_{0};  // counts, publishes nothing
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace dafs::fuse
