// One object of an exported file system while the server has a descriptor for it.
// Spec: 4.1.4 (handles), 6.1.5 CHANGE; ARCHITECTURE "Server".
// Thread-safe. Opening data descriptors may block on the file system.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/store/objects/handle.h"
#include "server/store/objects/mounts.h"
#include "server/store/system/fd.h"

namespace dafs::server {

// The CHANGE attribute: ctime in nanoseconds, or the next number behind the last one told where
// that is not less: kernels whose clock ticks in milliseconds give two changes within a tick the
// same ctime, a clock may be set back, and a ctime that was sampled before another is told behind
// it is of an earlier state. No two states are ever told with one number. A machine that ends
// without warning loses the latest ctime, also of data that was made safe (fdatasync): what its
// next start adds keeps a client's older data from passing for it.
class ChangeCounter {
 public:
  // `base` is added to all, and another when ctimes may have been lost.
  explicit ChangeCounter(uint64_t base = 0) : base_(base) {}

  // To be called before the ctime is sampled; its result goes to Value.
  uint64_t Sample() const { return modifications_.load(std::memory_order_acquire); }

  // To be called after every modification by the server.
  void Modified() { modifications_.fetch_add(1, std::memory_order_release); }

  // The attribute for a ctime sampled after `sample`.
  uint64_t Value(uint64_t ctime_ns, uint64_t sample);

  // What must be kept when the object's descriptor is given up: `extra` is 0 if nothing.
  struct Saved {
    uint64_t ctime_ns = 0;
    uint64_t extra = 0;
    // The attribute of the object while nobody has a counter for it.
    uint64_t Value(uint64_t base, uint64_t now_ctime_ns) const;
  };
  Saved Save();
  // Into a new one; one that lives has gone on from there.
  void Restore(const Saved& saved);

 private:
  const uint64_t base_;
  // Counts modifications; publishes that the modification before it is visible to statx.
  std::atomic<uint64_t> modifications_{0};
  absl::Mutex mutex_;
  uint64_t ctime_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // of the state last told
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;    // told for it, less base_; never goes back
  uint64_t told_ ABSL_GUARDED_BY(mutex_) = 0;      // modifications_ as of then
};

// Always made as a shared_ptr.
class Object : public std::enable_shared_from_this<Object> {
 public:
  // `descriptors` counts the descriptors held, and outlives the object. `change_base`: of its
  // ChangeCounter.
  Object(const FileSystem& fs, const wire::FileHandle& handle, Fd path, mode_t type,
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

  // A link in the orphan directory counts among the links of the inode, but not of the file.
  bool orphaned() const { return orphaned_.load(std::memory_order_relaxed); }
  void set_orphaned(bool orphaned) { orphaned_.store(orphaned, std::memory_order_relaxed); }
  // A name of it was removed while it is orphaned. If that was the last, it gets none again, unlike
  // a file that was made without a name.
  bool name_removed() const { return name_removed_.load(std::memory_order_relaxed); }
  void set_name_removed() { name_removed_.store(true, std::memory_order_relaxed); }

  // A descriptor of this regular file for reading, or for reading and writing, opened by the
  // server's own right: only for callers whose right has been established (by OPEN). Kept for the
  // next call. Owned by the object and the calls in flight. On failure nullptr, and *error an
  // errno.
  std::shared_ptr<const Fd> DataFd(bool write, int* error);

  // The same for reading alone, and reading moves no access time (where the server may ask for
  // that: it owns the file, or has CAP_FOWNER over it). Apart from DataFd's, whose readers do not
  // mind.
  std::shared_ptr<const Fd> QuietFd(int* error);

  // Keeps `fd`, which a caller has opened, as such a descriptor if there is none yet.
  void Donate(Fd fd, bool write);
  bool HasDataFd(bool write);

  // Closes the descriptor for writing once nobody uses it: while it is open, programs of the server
  // cannot execute the file.
  void DropWriteFd();

 private:
  std::shared_ptr<const Fd> Share(Fd fd);

  const FileSystem& fs_;
  const wire::FileHandle handle_;
  const Fd path_;
  const mode_t type_;
  std::atomic<size_t>& descriptors_;
  // These publish nothing but themselves.
  std::atomic<bool> orphaned_{false};
  std::atomic<bool> name_removed_{false};
  ChangeCounter change_;
  absl::Mutex mutex_;
  std::shared_ptr<const Fd> read_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Fd> write_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Fd> quiet_ ABSL_GUARDED_BY(mutex_);
};

// From now on what is read through `fd`, which no one else has yet, moves no access time, as far as
// the server may ask for that.
void KeepAtime(const Fd& fd);

// Owned by the descriptor cache, the open files, and the calls in flight.
using ObjectRef = std::shared_ptr<Object>;

}  // namespace dafs::server
