// The nodes that the kernel knows: node id <-> filehandle, the kernel's lookup counts, and the
// place where each node was last found. The other classes of this folder keep their part of each
// node's record (inode.h) here: AttributeCache, KernelPages, AbsentXattrCache and
// WriteTrackers.
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
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/synchronization/mutex.h"
#include "client/state/node.h"
#include "fuse/cache/directories/dentry_name.h"
#include "fuse/cache/inode.h"
#include "fuse/cache/live_nodes.h"
#include "fuse/cache/record/live_record.h"
#include "fuse/cache/write_trackers.h"
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

class InodeTable {
 public:
  static constexpr uint64_t kShards = 16;

  InodeTable() : generation_(std::random_device()()) {}
  InodeTable(const InodeTable&) = delete;
  InodeTable& operator=(const InodeTable&) = delete;

  // Call once, before the first request.
  void SetRoot(const wire::FileHandle& handle, const client::Attributes& attributes);

  // Returns the node of `handle`, found at `dentry`. Creates the node if it is not known. Counts
  // one lookup.
  //
  // A directory has one dentry in the kernel. If another client has moved the directory to another
  // parent, the kernel moves the dentry when a lookup finds it there. The kernel cannot do so while
  // it holds the lock of renames, that is, if the name is an argument of rename(2): it repeats the
  // lookup, and then fails with ESTALE. So the directory gets a new node if the thread repeats the
  // lookup soon, and has not used the node in between (Accepted). The old node stays valid for its
  // users.
  uint64_t Remember(const wire::FileHandle& handle, const wire::FileAttributes& attributes,
                    const DentryName& dentry, const Asker& asker = {});
  // A program of this mount has renamed `from` to `to`, and the kernel moves the dentry of the
  // node.
  void Moved(uint64_t nodeid, const DentryName& from, const DentryName& to, absl::Time now);
  // `thread` uses the node, so the kernel has accepted the place where it was found.
  void Accepted(uint64_t nodeid, uint32_t thread);
  // The kernel drops `count` lookups. The last one removes the node. Unknown ids are ignored, and a
  // count that is too large drops all lookups. Returns nullopt if the node is still known.
  struct Forgotten {
    DentryName dentry;                          // see LatestDentryOf
    std::optional<wire::FileHandle> opened;     // the file, if it had been opened
    std::optional<wire::FileHandle> directory;  // if it was one
  };
  std::optional<Forgotten> Forget(uint64_t nodeid, uint64_t count);

  // The generation is part of a file handle (name_to_handle_at(2)). By it the kernel distinguishes
  // our nodes from those of another mount, or of an earlier mount at the same place. Random; 0 for
  // the root.
  uint32_t GenerationOf(uint64_t nodeid) const { return nodeid == kRootNode ? 0 : generation_; }

  std::optional<InodeView> Find(uint64_t nodeid) const;
  // The node of `handle`, without counting a lookup; 0 if it is not known.
  uint64_t NodeOf(const wire::FileHandle& handle) const;
  // All nodes of `handle`, the root included. A directory that was moved may have several, see
  // Remember.
  using NodeIds = absl::InlinedVector<uint64_t, 2>;
  NodeIds NodesOf(const wire::FileHandle& handle) const;
  // Where the node was last found. It may have been renamed or removed since. Empty: unknown.
  DentryName LatestDentryOf(uint64_t nodeid) const;
  // The number that stat(2) shows for an object with `file_id` at the server: for a node, and for
  // an object in `fs` (inode_number.h).
  uint64_t NumberOf(uint64_t nodeid, uint64_t file_id) const;
  uint64_t NumberIn(const wire::FsHandle& fs, uint64_t file_id) const;
  // Runs `use(Inode*)` under the mutex of the node's shard; nullptr if the node is not known. `use`
  // must not block, nor call the table again.
  template <class F>
  auto With(uint64_t nodeid, F&& use) const {
    return WithTrackers(nodeid, [&](Inode* inode, KeptTrackers&) { return use(inode); });
  }
  // The same, with the trackers of the shard.
  template <class F>
  auto WithTrackers(uint64_t nodeid, F&& use) const {
    Shard& shard = ShardOf(nodeid);
    absl::MutexLock lock(&shard.mutex);
    auto it = shard.by_node.find(nodeid);
    return use(it == shard.by_node.end() ? nullptr : it->second.get(), shard.trackers);
  }

  // Runs `use(nodeid, const Inode&)` for each node of a shard, under its mutex; as With.
  template <class F>
  void ForEachOf(uint64_t shard, F&& use) const {
    absl::MutexLock lock(&shards_[shard].mutex);
    for (const auto& [nodeid, inode] : shards_[shard].by_node) use(nodeid, *inode);
  }

  size_t size() const;

  // For the program that continues the mount (docs/restart.md): all nodes, and what does not depend
  // on caches of this process. Restore: into a new table, before the first request. Names that a
  // directory has moved from are not saved.
  struct Saved {
    struct Node : LiveNodes::Node {
      DentryName dentry;
      InodeDentries::Saved names;
      bool newest = true;              // of the nodes of the handle
      std::optional<uint64_t> change;  // of the attributes that the kernel was sent last
      std::optional<uint64_t> pages;   // see NodePages
    };
    uint32_t generation = 0;
    uint64_t next = 1;
    std::vector<Node> nodes;
  };
  // From now on the nodes are also in `record`, for a program that continues the mount after a
  // crash. Before the first request, and before Restore. `record` must outlive this.
  void KeepIn(LiveRecord* record) { live_ = LiveNodes(record); }
  // Whether a file has a late write error that no fsync has reported. Such an error is not saved.
  bool HasUnseenError() const;
  Saved Save() const;
  Saved SaveRoot() const;  // no other node
  // False: the nodes contradict each other, or there is no root.
  bool Restore(const Saved& saved);

  // The number of nodes that the kernel has forgotten so far.
  uint64_t forgotten() const { return forgotten_.load(std::memory_order_relaxed); }
  // Frees unused capacity after many nodes were forgotten. Holds each shard's mutex while its nodes
  // are moved.
  void ShrinkToFit();

 private:
  // A node and its handle are in the same shard. The low bits of the node id are its index.
  struct Shard {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, std::unique_ptr<Inode>> by_node ABSL_GUARDED_BY(mutex);
    absl::flat_hash_map<wire::FileHandle, uint64_t> by_handle ABSL_GUARDED_BY(mutex);
    // Nodes of directories that have a newer node in by_handle.
    absl::flat_hash_map<wire::FileHandle, NodeIds> older ABSL_GUARDED_BY(mutex);
    KeptTrackers trackers ABSL_GUARDED_BY(mutex);
  };
  // The same in each process, see Restore.
  static uint64_t ShardOfHandle(const wire::FileHandle& handle);
  static Saved::Node SavedOf(const Shard& shard, uint64_t nodeid, const Inode& inode)
      ABSL_SHARED_LOCKS_REQUIRED(shard.mutex);
  Shard& ShardOf(uint64_t nodeid) const { return shards_[nodeid % kShards]; }
  // The kernel has accepted the place where a directory was found, or the node is removed.
  void EndMove(Inode& inode);
  // Records that a node was found again. Returns false if the kernel does not accept it at
  // `dentry`.
  bool FoundAt(Inode& inode, const DentryName& dentry, const Asker& asker);

  // Both are set before the first request. The kernel keeps 32 bits of the generation and compares
  // them with each reply.
  uint32_t generation_;
  wire::FileHandle root_;
  LiveNodes live_{nullptr};  // set before the first request
  // Whether a node lies in another file system. Publishes nothing: a thread that uses such a node
  // has received it in a reply.
  std::atomic<bool> several_fs_{false};
  // Gives ids only; publishes nothing. The first is at least kShards: node 1 is the root.
  std::atomic<uint64_t> next_{1};
  // Nodes that have `moved`. Publishes nothing: a thread that uses a node has received it in a
  // reply.
  std::atomic<uint64_t> moved_{0};
  std::atomic<uint64_t> forgotten_{0};  // counts, publishes nothing
  mutable std::array<Shard, kShards> shards_;
};

}  // namespace dafs::fuse
