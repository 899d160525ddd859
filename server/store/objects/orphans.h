// Where the last name of an open file goes when it is removed: a hidden directory at the root of
// its file system, so that the file lives until its last close although no descriptor may be kept
// for it. What a crash leaves there waits for its opens to be reclaimed, or is removed.
// Spec: 6.5.7-02, 6.5.33 (removal of open files); ARCHITECTURE "Hard points".
// Thread-safe. May block on the file system. Works by the server's own privilege.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/object.h"
#include "server/store/objects/orphan_record.h"

namespace dafs::server {

// The directory's name. At the root of a file system no client can see or use it.
inline constexpr char kOrphanDirectory[] = ".dafsd-orphans";

class Orphans {
 public:
  // `record`, borrowed, is where each file system is noted that gets a directory.
  explicit Orphans(OrphanRecord& record) : record_(record) {}

  // Takes up what an earlier run of the server has left on `fs`, before anybody comes to its files:
  // until Sweep it may be adopted.
  void TakeUp(const FileSystem& fs);
  // `file` has been opened again: if it was left, it lives on as one that Link has named.
  void Adopt(Object& file);
  // Gives `file`, which may be open without our knowing yet, a name as one that was left.
  bool LinkLeft(Object& file);
  // The last known open of `file`, which Link has named, is closed; another open of it may still be
  // reclaimed, so it is left.
  void Leave(Object& file);
  // Whether anything may be left. Cheap: asked for every open.
  bool any_left() const { return left_.load(std::memory_order_relaxed) > 0; }
  // Removes what nobody has adopted.
  void Sweep();

  // Gives `file` a name in the directory. False if the file system does not let us.
  bool Link(Object& file);

  // Takes that name away again.
  void Unlink(Object& file);

  // Whether the directory is there now, in the directory of `fs` with this inode number: it counts
  // among that one's links. Waits for no file system.
  bool IsIn(const FileSystem& fs, uint64_t inode) const;

 private:
  // Where one is: device and inode of the root of its file system, which two exports may share.
  using Place = std::pair<uint64_t, uint64_t>;
  static Place PlaceOf(const FileSystem& fs) { return {fs.device, fs.root_inode}; }
  struct Directory {
    const FileSystem* fs = nullptr;
    Fd fd;
    size_t files = 0;  // linked or adopted
    absl::flat_hash_set<std::string> left;
  };
  Directory* OpenDirectory(const FileSystem& fs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LinkIn(Directory& directory, const Object& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveIfEmpty(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const Place& place, bool there);

  OrphanRecord& record_;
  // Files that are left, of all directories. A hint: the mutex guards what it counts.
  std::atomic<size_t> left_{0};
  absl::Mutex mutex_;
  absl::flat_hash_map<Place, Directory> directories_ ABSL_GUARDED_BY(mutex_);
  mutable absl::Mutex there_mutex_;  // never held while a file system is asked
  absl::flat_hash_set<Place> there_ ABSL_GUARDED_BY(there_mutex_);
};

}  // namespace dafs::server
