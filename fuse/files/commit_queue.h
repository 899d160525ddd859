// Data that was written and is not yet on the server's stable storage: a COMMIT is sent for it in
// the background, kCommitAfter after it was written, or as soon as there are more than kMostBytes
// of it. It leaves with the next request of a program, or after a moment. close(2) waits for none
// of that, as on a local file system; fsync(2) has its own at once. What a COMMIT finds lost is
// noted for each open file. A file that the kernel forgets while it has
// uncommitted data was probably removed: the server is asked, and a removed file needs no COMMIT.
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
  // What was first written within so long is committed together, a little early.
  static constexpr absl::Duration kTogether = absl::Milliseconds(250);
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  // COMMITs that are out at once: enough for a journal to take many in one write, and few enough to
  // leave slots and the server's disk threads to others.
  static constexpr size_t kMostAtOnce = 8;

  explicit CommitQueue(client::Files& files) : files_(files) {}
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // `bytes` were written to the file of `open` and may not be stable.
  void Add(const std::shared_ptr<OpenState>& open, uint64_t bytes);
  // Makes what was written to the file of `open` last, as soon as its turn comes.
  dat::Task<void> CommitNow(std::shared_ptr<OpenState> open);
  // COMMIT at once, whatever is waiting; fsync(2). OK: it is safe, or lost, which every open file
  // reports (WriteTracker::ErrorForFsync). After an error the data is as uncommitted as before, and
  // no other open file reports it. `can_wait`: see Files::Commit.
  dat::Task<absl::Status> CommitFile(std::shared_ptr<OpenState> open, bool can_wait);
  // The kernel has forgotten `file`, whose writes are in `writes`. If it was removed, its data is
  // dropped without a COMMIT.
  void DropIfRemoved(const wire::FileHandle& file, std::shared_ptr<client::WriteTracker> writes);
  // The end: everything is committed now; `done` runs when that is over, perhaps at once.
  void CommitAll(std::function<void()> done);
  bool empty() const { return waiting_.empty() && running_ == 0; }

 private:
  struct Entry {
    std::shared_ptr<OpenState> open;
    uint64_t bytes = 0;
    absl::Time since;                    // of the first write; infinite past: of CommitNow
    dat::Pending<bool>* done = nullptr;  // of who waits, in his frame
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
  absl::Time due_ = absl::InfinitePast();  // what was written until then
  size_t running_ = 0;
  std::list<Forgotten> forgotten_;  // not asked about yet
  size_t asking_ = 0;               // coroutines that ask, at most kMostAtOnce
  bool pumping_ = false;
  bool ending_ = false;  // everything is due
  std::function<void()> when_empty_;
  dat::Loop::TimerId timer_ = 0;
};

}  // namespace dafs::fuse
