// Decides when the files that one worker has written are committed in the background: kCommitAfter
// after the write, as soon as more than kMostBytes wait, or at once if memory is short. The request
// leaves with the next request of a program, or after a moment. No caller waits for it.
//
// Uncommitted (client/state/data/uncommitted.h) knows which files need a COMMIT. The schedule only
// holds their order: a file that no longer needs one when its turn comes is skipped, and a file
// that two workers have written is committed once. A failed COMMIT is retried after kCommitAfter.
// Spec: 6.5.8 (COMMIT), 6.5.38 (unstable writes).
// Belongs to the thread of its loop; one for each worker. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "client/state/data/uncommitted.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class Committer;

class CommitSchedule {
 public:
  static constexpr absl::Duration kCommitAfter = absl::Seconds(5);
  // Data first written within this time is committed together, a little early.
  static constexpr absl::Duration kTogether = absl::Milliseconds(250);
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  // Outstanding COMMITs: enough for a journal to take many in one write, and few enough to leave
  // slots and the server's disk threads to other requests.
  static constexpr size_t kMostAtOnce = 8;

  // All outlive it.
  CommitSchedule(Committer& committer, Uncommitted& store, Loop& loop);
  CommitSchedule(const CommitSchedule&) = delete;
  CommitSchedule& operator=(const CommitSchedule&) = delete;
  // Nothing is committed any more. Ends the waits of CommitNow.
  void Shutdown();

  // `bytes` were written to `file`, which needs a COMMIT.
  void Add(const wire::FileHandle& file, uint64_t bytes);
  // Commits all kept data of the mount now, also that of other workers. Does not wait.
  void CommitSoon();
  // The same, and also of files of which no data is kept.
  void MakeAllDue();
  // Commits `file` before all other files that wait. Returns after that COMMIT, even if it failed.
  Task<void> CommitNow(wire::FileHandle file);
  // The file needs no COMMIT any more.
  void Drop(const wire::FileHandle& file);
  // Commits everything now, at the end of the mount. Runs `done` after that, perhaps before this
  // returns. Nothing is scheduled again.
  void CommitAll(std::function<void()> done);
  bool empty() const { return waiting_.empty() && running_ == 0; }

 private:
  struct Entry {
    wire::FileHandle file;
    uint64_t bytes = 0;
    absl::Time since;               // of the first write; infinite past: due at once
    Pending<bool>* done = nullptr;  // of CommitNow, in its frame
    bool soon = false;              // of CommitSoon
  };
  using Entries = std::list<Entry>;

  bool IsDue(const Entry& entry) const;
  void Pump();
  void SetTimer();
  Task<void> Commit(Entry entry);
  void Ended(const Entry& entry);

  Committer& committer_;
  Uncommitted& store_;
  Loop& loop_;
  Entries waiting_;                                                   // the oldest first
  absl::flat_hash_map<wire::FileHandle, Entries::iterator> by_file_;  // all but those of CommitNow
  uint64_t bytes_ = 0;                                                // of waiting_
  absl::Time due_ = absl::InfinitePast();  // data written until then is due
  size_t running_ = 0;
  size_t soon_ = 0;  // entries of the last CommitSoon that have not ended
  bool pumping_ = false;
  bool ending_ = false;     // everything is due
  bool shut_down_ = false;  // nothing is
  std::function<void()> when_empty_;
  Loop::TimerId timer_ = 0;
};

}  // namespace dafs::client
