// Sends COMMIT in the background for written data that is not yet on the server's stable storage.
// It does so kCommitAfter after the write, or as soon as more than kMostBytes are waiting. The
// request leaves with the next request of a program, or after a moment. close(2) waits for none of
// that, as on a local file system. fsync(2) sends its own COMMIT at once. If a COMMIT finds that
// data is lost, each open file records the error.
//
// A file that the kernel forgets while it has uncommitted data was probably removed. The queue asks
// the server, and sends no COMMIT for a removed file.
//
// Spec: 6.5.8 (COMMIT), 6.5.38 (unstable writes).
// Belongs to one worker's thread. Never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "client/files/files.h"
#include "fuse/files/open_files.h"
#include "runtime/loop.h"
#include "runtime/task.h"

namespace dafs::fuse {

class CommitQueue {
 public:
  static constexpr absl::Duration kCommitAfter = absl::Seconds(5);
  // Data first written within this time is committed together, a little early.
  static constexpr absl::Duration kTogether = absl::Milliseconds(250);
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  // Outstanding COMMITs: enough for a journal to take many in one write, and few enough to leave
  // slots and the server's disk threads to other requests.
  static constexpr size_t kMostAtOnce = 8;

  explicit CommitQueue(client::Files& files) : files_(files) {}
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // `bytes` were written to the file of `open` and may not be stable.
  void Add(const std::shared_ptr<OpenState>& open, uint64_t bytes);
  // Commits what was written to the file of `open`, before all other files that wait. Returns after
  // that COMMIT, even if it failed.
  dat::Task<void> CommitNow(std::shared_ptr<OpenState> open);
  // Sends COMMIT at once, whatever is waiting; for fsync(2). OK: the data is safe, or it is lost
  // and every open file reports that (WriteTracker::ErrorForFsync). After an error the data is
  // still uncommitted, and no other open file reports the error. `can_wait`: see CommitOperations::Commit.
  dat::Task<absl::Status> CommitFile(std::shared_ptr<OpenState> open, bool can_wait);
  // The kernel has forgotten `file`, whose writes are in `writes`. If the file was removed, drops
  // its data without a COMMIT.
  void DropIfRemoved(const wire::FileHandle& file, std::shared_ptr<client::WriteTracker> writes);
  // Commits everything now, at the end of the mount. Runs `done` after that, perhaps before this
  // returns.
  void CommitAll(std::function<void()> done);
  bool empty() const { return waiting_.empty() && running_ == 0; }

 private:
  struct Entry {
    std::shared_ptr<OpenState> open;
    uint64_t bytes = 0;
    absl::Time since;                    // of the first write; infinite past: by CommitNow
    dat::Pending<bool>* done = nullptr;  // of CommitNow, in its frame
  };

  struct Forgotten {
    wire::FileHandle file;
    std::shared_ptr<client::WriteTracker> writes;
  };

  bool IsDue(const Entry& entry) const;
  void Pump();
  dat::Task<void> AskForRemoved();
  void Drop(const client::WriteTracker* writes);
  dat::Task<void> Commit(Entry entry);

  client::Files& files_;
  std::list<Entry> waiting_;  // the oldest first
  absl::flat_hash_map<const client::WriteTracker*, std::list<Entry>::iterator> by_file_;
  uint64_t bytes_ = 0;                     // of waiting_
  absl::Time due_ = absl::InfinitePast();  // data written until then is due
  size_t running_ = 0;
  std::list<Forgotten> forgotten_;  // not checked yet
  size_t asking_ = 0;               // coroutines that check, at most kMostAtOnce
  bool pumping_ = false;
  bool ending_ = false;  // everything is due
  std::function<void()> when_empty_;
  dat::Loop::TimerId timer_ = 0;
};

}  // namespace dafs::fuse
