// One object of an exported file system while the server has a descriptor for it.
// Spec: 4.1.4 (handles), 6.1.5 CHANGE; docs/decisions.md, Server.
// Thread-safe. Opening data descriptors may block on the file system.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/files/unique_fd.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/mounts.h"

namespace dafs::server {

// The CHANGE attribute: the ctime in nanoseconds, or the last reported value plus one if that is
// greater. The ctime alone does not suffice:
// - two changes within one tick of a coarse kernel clock have the same ctime;
// - a clock may be set back;
// - a ctime that was sampled before another was reported belongs to an older state.
// No two states are reported with the same value. A crash of the machine may lose the latest ctime,
// also of data that was made stable (fdatasync). Therefore every start of the machine changes the
// base, so that a client's cached data from before does not match a new state.
class ChangeCounter {
 public:
  // Adds `base` to every value. The server changes `base` when ctimes may have been lost.
  explicit ChangeCounter(uint64_t base = 0) : base_(base) {}

  // Call before the ctime is sampled; pass the result to Value.
  uint64_t Sample() const { return modifications_.load(std::memory_order_acquire); }

  // Call after every modification by the server.
  void Modified() { modifications_.fetch_add(1, std::memory_order_release); }

  // The attribute for a ctime sampled after `sample`.
  uint64_t Value(uint64_t ctime_ns, uint64_t sample);

  // The state to keep when the object's descriptor is closed. `extra` is 0 if there is none.
  struct Saved {
    uint64_t ctime_ns = 0;
    uint64_t extra = 0;
    // The attribute of the object while it has no counter.
    uint64_t Value(uint64_t base, uint64_t now_ctime_ns) const;
  };
  Saved Save();
  // Continues from `saved`. Has no effect on a counter that has been used.
  void Restore(const Saved& saved);

 private:
  const uint64_t base_;
  // Counts modifications; publishes that the modification before it is visible to statx.
  std::atomic<uint64_t> modifications_{0};
  absl::Mutex mutex_;
  uint64_t ctime_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // of the state that was reported last
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;    // reported for it, less base_; never decreases
  uint64_t told_ ABSL_GUARDED_BY(mutex_) = 0;      // value of modifications_ at that time
};

// Always created as a shared_ptr.
class Object : public std::enable_shared_from_this<Object> {
 public:
  // `descriptors` counts the open descriptors and outlives the object. `change_base` is the base of
  // its ChangeCounter.
  Object(const FileSystem& fs, const wire::FileHandle& handle, UniqueFd path, mode_t type,
         std::atomic<size_t>& descriptors, uint64_t change_base);
  ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const FileSystem& fs() const { return fs_; }
  const wire::FileHandle& handle() const { return handle_; }
  ObjectKey key() const { return KeyOf(handle_); }
  int path_fd() const { return path_.get(); }  // O_PATH
  mode_t type() const { return type_; }        // S_IFDIR, ...; never changes
  bool is_dir() const { return type_ == S_IFDIR; }
  bool is_regular() const { return type_ == S_IFREG; }
  ChangeCounter& change() { return change_; }

  // The file has a link in the orphan directory. It counts among the links of the inode, but not of
  // the file.
  bool orphaned() const { return orphaned_.load(std::memory_order_relaxed); }
  void set_orphaned(bool orphaned) { orphaned_.store(orphaned, std::memory_order_relaxed); }
  // A name of the file was removed while it was orphaned. If that was the last name, LINK cannot
  // give it another, unlike a file that was created without a name.
  bool name_removed() const { return name_removed_.load(std::memory_order_relaxed); }
  void set_name_removed() { name_removed_.store(true, std::memory_order_relaxed); }

  // A descriptor of this regular file for reading, or for reading and writing, opened with the
  // server's own privilege. Only for callers whose rights an OPEN has established. Kept for the
  // next call; owned by the object and the calls in progress. On failure returns nullptr, with an
  // errno in *error.
  std::shared_ptr<const UniqueFd> DataFd(bool write, int* error);

  // The same for reading alone, without updates of the access time, where the server may request
  // that (it owns the file, or has CAP_FOWNER over it). Separate from the descriptor of DataFd,
  // whose reads may update it.
  std::shared_ptr<const UniqueFd> QuietFd(int* error);

  // Keeps `fd`, which a caller opened, as such a descriptor unless there is one already. Returns
  // the one that is kept, which DropWriteFd may take away at once.
  std::shared_ptr<const UniqueFd> Donate(UniqueFd fd, bool write);
  bool HasDataFd(bool write);

  // Closes the descriptor for writing after its last use. While it is open, local programs cannot
  // execute the file.
  void DropWriteFd();

 private:
  std::shared_ptr<const UniqueFd> Share(UniqueFd fd);

  const FileSystem& fs_;
  const wire::FileHandle handle_;
  const UniqueFd path_;
  const mode_t type_;
  std::atomic<size_t>& descriptors_;
  // They publish no other data.
  std::atomic<bool> orphaned_{false};
  std::atomic<bool> name_removed_{false};
  ChangeCounter change_;
  absl::Mutex mutex_;
  std::shared_ptr<const UniqueFd> read_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const UniqueFd> write_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const UniqueFd> quiet_ ABSL_GUARDED_BY(mutex_);
};

// Sets O_NOATIME on `fd`, if the server may. No other thread uses `fd` yet.
void KeepAtime(const UniqueFd& fd);

// Owned by the descriptor cache, the open files, and the calls in progress.
using ObjectRef = std::shared_ptr<Object>;

}  // namespace dafs::server
