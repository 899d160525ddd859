// The objects that the server has a descriptor of: those in the cache, and those that are open.
// Finds the object of a handle or of a descriptor, and keeps it. Thread-safe. Blocks on the file
// system.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/unique_fd.h"
#include "server/store/access/announcements.h"
#include "server/store/durable/write_verifier.h"
#include "server/store/holdings/caller.h"
#include "server/store/holdings/open_table.h"
#include "server/store/objects/descriptor_cache.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/mounts.h"
#include "server/store/objects/object.h"
#include "wire/protocol/constants.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class KnownObjects {
 public:
  // Borrowed.
  struct Uses {
    const HandleMac& mac;
    DescriptorCache& cache;
    OpenTable& opens;
    Mounts& mounts;
    WriteVerifier& write_verifier;
    Announcements& announcements;
  };
  explicit KnownObjects(const Uses& uses) : uses_(uses) {}

  // Whether `handle` was made by this server. Cheap for handles in use.
  bool IsGenuine(const wire::FileHandle& handle);

  // The object of a genuine handle that is not in the cache: an open one, or it is opened. STALE,
  // ACCES, RESOURCE.
  wire::DafsStatus Open(const wire::FileHandle& handle, ObjectRef* object);

  // The object of a descriptor that was just opened with O_PATH. If the object was not cached, it
  // keeps the descriptor. `near`: the file system of the directory in which it was opened.
  // AdoptNewFile is for a regular file that was just created: it calls no statx.
  wire::DafsStatus Adopt(const FileSystem& near, UniqueFd path, ObjectRef* object,
                         const Caller* keeper = nullptr);
  wire::DafsStatus AdoptNewFile(const FileSystem& near, UniqueFd path, ObjectRef* object);
  // Adds an object to the cache. If another thread was faster, returns the object of that thread.
  // The cache does not keep an object whose file system is retired.
  ObjectRef CacheObject(ObjectRef object);
  // The same for a new object, with its descriptor `path`.
  ObjectRef KeepObject(const FileSystem& fs, const wire::FileHandle& handle, UniqueFd path,
                       mode_t type);

  // Checks one part of the cached objects. Forgets those that local programs have removed and no
  // client has open, because a descriptor keeps their space. One thread at a time; others return at
  // once.
  void ForgetRemoved();

  // Whether the object of a genuine handle is certainly gone: its file system is served and has no
  // such object, or one without a name that no client has open.
  bool IsGone(const wire::FileHandle& handle);

  // STALE for an object that has no name and that no client has open. Such an object exists only
  // because the cache holds a descriptor, so it is forgotten. `nlink` comes from a statx that was
  // just made.
  wire::DafsStatus CheckAlive(Object& object, uint32_t nlink);

 private:
  // The key of the object that `path` refers to, and the object if it is cached.
  wire::DafsStatus Identify(const FileSystem& near, const UniqueFd& path, const FileSystem** fs,
                            ObjectKey* key, ObjectRef* object);
  wire::DafsStatus OpenByHandle(const wire::FileHandle& handle, ObjectRef* object);

  const Uses uses_;
  absl::Mutex forgetting_;
  size_t next_part_ ABSL_GUARDED_BY(forgetting_) = 0;
};

}  // namespace dafs::server
