// Completion groups collect completions of asynchronous reads and writes. An I/O gets its group
// when it is issued; waiting for a group ignores all other I/O.
// Spec: FAST03 4 (completion groups).
//
// Belongs to the thread of its loop, like the I/O of all sessions on that loop; they may share one
// group. Nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Names an outstanding I/O. Not used again while the session lives, except after 2^31 I/Os.
struct IoId {
  static constexpr uint64_t kOfBatch = uint64_t{1} << 63;  // set in those of BatchIo
  uint64_t value = 0;
  bool is_batch() const { return (value & kOfBatch) != 0; }
  friend bool operator==(const IoId&, const IoId&) = default;
};

// How an I/O ended. The application owns the memory of the I/O again.
struct IoCompletion {
  IoId id;
  uint64_t cookie = 0;  // the application's
  // Why it failed, with the name of the file. kCancelled: by Cancel, or because the session was
  // shut down; all or part of it may have been executed. Other codes: client/files/files.h.
  absl::Status status;
  // Bytes transferred from the start of its lists, without a gap. Fewer than requested: an error,
  // or the end of the file.
  uint64_t count = 0;
  bool eof = false;  // reads: the end of the file was reached
  // Writes: the lowest stability of all parts. kUnstable: stable after a commit of the file.
  wire::StableHow committed = wire::StableHow::kFileSync;
};

namespace internal {
// A completed I/O in its group's list.
struct GroupEntry {
  GroupEntry* next = nullptr;
  GroupEntry* prev = nullptr;
  virtual ~GroupEntry() = default;
  // Copies the completion and releases the I/O.
  virtual void Collect(IoCompletion& out) = 0;
};
}  // namespace internal

class CompletionGroup {
 public:
  explicit CompletionGroup(Loop& loop) : loop_(loop) {}
  ~CompletionGroup();  // after all completions were collected
  CompletionGroup(const CompletionGroup&) = delete;
  CompletionGroup& operator=(const CompletionGroup&) = delete;

  // Takes up to `out.size()` completions, in the order in which the I/O ended; returns how many. If
  // there is none, turns the loop once, without sleeping. The only system calls are those of the
  // transport (none on an RDMA device).
  size_t Poll(std::span<IoCompletion> out);

  // The same, but waits for the first completion, until `timeout` has passed or no I/O of the group
  // is outstanding (then returns 0).
  size_t Wait(std::span<IoCompletion> out, absl::Duration timeout = absl::InfiniteDuration());

  size_t outstanding() const { return outstanding_; }  // issued and not ended
  size_t ended() const { return ended_; }              // ended and not collected

 private:
  friend class AsyncRecord;
  friend class BatchIo;
  void Issued() { ++outstanding_; }
  void Ended(internal::GroupEntry& entry);
  void Remove(internal::GroupEntry& entry);
  size_t Take(std::span<IoCompletion> out);

  Loop& loop_;
  size_t outstanding_ = 0;
  size_t ended_ = 0;
  internal::GroupEntry* first_ = nullptr;
  internal::GroupEntry* last_ = nullptr;
};

}  // namespace dafs::client
