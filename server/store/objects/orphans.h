// Keeps a file that loses its last name while open: links it into a hidden directory at the root of
// its file system, because the server may have to close its descriptor before the last close.
//
// The directory is made before a client sees the file system, and is never removed: it would change
// the attributes of the root, which clients may have been promised.
//
// A linked file without a known open is "left" while a client may still reclaim an open of it:
// after a restart, or after LinkLeft or Leave. Adopt ends that when an open is reclaimed. Sweep
// removes the files that are still left.
// Spec: 6.5.7-02, 6.5.33 (removal of open files); docs/decisions.md, Server.
// Thread-safe. May block on the file system. Uses the server's own privilege.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/unique_fd.h"
#include "server/store/objects/hidden_directory.h"
#include "server/store/objects/object.h"
#include "server/store/objects/orphan_record.h"

namespace dafs::server {

class Orphans {
 public:
  // `record` is borrowed. It records each file system that gets a directory.
  explicit Orphans(OrphanRecord& record) : record_(record) {}

  // Makes the directory of `fs`, if the file system permits, and lists the files that an earlier
  // run of the server left there. They can be adopted until Sweep. Call before a request reaches
  // the files of `fs`.
  void TakeUp(const FileSystem& fs);
  // `file` was opened again. If it was left, treats it like a file from Link from now on.
  void Adopt(Object& file);
  // Links `file` as one that is left: a client may still reclaim an open of it.
  bool LinkLeft(Object& file);
  // The last known open of `file`, which Link has linked, is closed, but another open may still be
  // reclaimed. Treats the file as left from now on.
  void Leave(Object& file);
  // Whether any file may be left. Cheap: called for every open.
  bool any_left() const { return left_.load(std::memory_order_relaxed) > 0; }
  // `fs` is not served any more, and no file in it is open: releases the descriptor of its
  // directory. Files that are left stay there until TakeUp finds them again.
  void Forget(const FileSystem& fs);
  // Removes the left files that were not adopted on the file systems for which `ended` is true.
  void Sweep(absl::FunctionRef<bool(const FileSystem&)> ended);

  // Links `file` into the directory. Returns false if the file system refuses.
  bool Link(Object& file);

  // Removes that link.
  void Unlink(Object& file);

  // Whether the directory with this inode number on `fs` contains an orphan directory, of `fs` or
  // of an export below it. If so, its link count includes that. Never blocks on a file system.
  bool IsIn(const FileSystem& fs, uint64_t inode) const;

 private:
  // Device and inode of the root of the file system. Two exports may share it.
  using Place = std::pair<uint64_t, uint64_t>;
  static Place PlaceOf(const FileSystem& fs) { return {fs.device, fs.root_inode}; }
  static uint64_t BitOf(const Place& place) { return uint64_t{1} << (absl::HashOf(place) % 64); }
  // Only while there are files: a descriptor keeps the space of a deleted subvolume.
  struct Directory {
    const FileSystem* fs = nullptr;
    UniqueFd fd;
    size_t files = 0;  // linked or adopted
    absl::flat_hash_set<std::string> left;
  };
  Directory* OpenDirectory(const FileSystem& fs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool LinkIn(Directory& directory, const Object& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseIfEmpty(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const Place& place) ABSL_LOCKS_EXCLUDED(there_mutex_);

  OrphanRecord& record_;
  // Number of left files in all directories. Readable without the mutex, as a hint.
  std::atomic<size_t> left_{0};
  absl::Mutex mutex_;
  absl::flat_hash_map<Place, Directory> directories_ ABSL_GUARDED_BY(mutex_);
  // The bits of all places in there_. Saves most callers the mutex. Publishes nothing.
  std::atomic<uint64_t> there_bits_{0};
  mutable absl::Mutex there_mutex_;  // never held during a file system call
  absl::flat_hash_set<Place> there_ ABSL_GUARDED_BY(there_mutex_);
};

}  // namespace dafs::server
