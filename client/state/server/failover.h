// The alternate locations of the server: which file systems the client has seen, the locations that
// it has fetched for each, and what it has to fetch. All file systems of a server move together,
// so the locations of all are alternates of the server (client/state/server/paths.h).
// Spec: 5.3, 5.3.1, 6.1.4 (dafs_fs_locations).
// Thread-safe; nothing blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/state/server/root_handle.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Failover {
 public:
  // `name`: for log lines. `root` outlives this.
  Failover(std::string name, const RootHandle& root) : name_(std::move(name)), root_(root) {}
  Failover(const Failover&) = delete;
  Failover& operator=(const Failover&) = delete;

  // `fetch` runs when locations are to be fetched, on any thread, and not again before EndFetch;
  // `fetched` runs in EndFetch, with whether the fetch found anything new. Neither may block. Null:
  // no more.
  void OnDue(std::function<void()> fetch, std::function<void(bool has_news)> fetched)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The server has returned this handle. Its file system may be a new one (5.3). Takes no lock if
  // the handle before was of the same file system.
  void Saw(const wire::FileHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server says that locations have changed (5.3.1).
  void Changed() ABSL_LOCKS_EXCLUDED(mutex_);
  // A session was made with this instance of the server. A later one than before does not know what
  // the client has fetched.
  void Reached(uint32_t instance) ABSL_LOCKS_EXCLUDED(mutex_);

  // A handle in each file system whose locations are to be fetched.
  std::vector<wire::FileHandle> TakeDue() ABSL_LOCKS_EXCLUDED(mutex_);
  // The value of the attribute for the file system of `handle`. Logs a location that cannot be
  // used.
  void Fetched(const wire::FileHandle& handle, const std::vector<wire::FsLocations>& locations)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The server no longer knows this handle of TakeDue. The file system keeps its locations. They
  // are fetched by the next handle that is seen in it.
  void NotFetched(const wire::FileHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndFetch() ABSL_LOCKS_EXCLUDED(mutex_);

  // "HOST" or "HOST:PORT", each once, in the order in which they are tried.
  std::vector<std::string> Servers() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The most file systems of a mount, and the most locations of each, that are kept.
  static constexpr size_t kMostFileSystems = 1024;
  static constexpr size_t kMostServers = 16;

  struct FileSystem {
    explicit FileSystem(const wire::FileHandle& seen) : id(seen.fshandle), handle(seen) {}
    const wire::FsHandle id;  // read without the mutex by `last_`
    wire::FileHandle handle;  // to fetch with
    bool is_stale = false;    // the server no longer knows `handle`
    bool is_due = true;
    std::vector<std::string> servers;
  };
  FileSystem* Find(const wire::FsHandle& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the file system of `handle`, which replaces a stale one; null: there are too many.
  FileSystem* Add(const wire::FileHandle& handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string name_;
  const RootHandle& root_;
  std::atomic<bool> changed_{false};  // set once for many answers with the flag
  std::atomic<uint32_t> instance_{0};
  // The file system of the last handle that Saw looked up, unless it is stale. Publishes an `id`,
  // which neither moves nor changes. Written under the mutex.
  std::atomic<const wire::FsHandle*> last_{nullptr};
  mutable absl::Mutex mutex_;
  std::deque<FileSystem> file_systems_ ABSL_GUARDED_BY(mutex_);  // only grows
  bool is_fetching_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_news_ ABSL_GUARDED_BY(mutex_) = false;  // since the last EndFetch
  std::function<void()> fetch_ ABSL_GUARDED_BY(mutex_);
  std::function<void(bool)> fetched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dafs::client
