// Completion groups: where the ends of asynchronous reads and writes are collected. An I/O is given
// to a group when it is issued; waiting for a group looks at no other I/O.
// Spec: FAST03 4 (completion groups).
//
// Belongs to the thread of its loop, as the I/Os of all sessions on that loop do, which may all use
// one group. Nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// Names an I/O that is out. Never used again.
struct IoId {
  uint64_t value = 0;
  friend bool operator==(const IoId&, const IoId&) = default;
};

// How an I/O ended. Its memory is the application's again.
struct IoCompletion {
  IoId id;
  uint64_t cookie = 0;  // the application's
  // Why it failed, with the name of the file. kCancelled: by Cancel, or because the session was
  // shut down; it may have been carried out, in part or whole. Other codes: client/files/files.h.
  absl::Status status;
  // Bytes moved from the start of its lists on, without a gap. Fewer than asked for: an error, or
  // the end of the file.
  uint64_t count = 0;
  bool eof = false;  // reads: the end of the file was met
  // Writes: the least of all parts. kUnstable: safe once the file is committed.
  wire::StableHow committed = wire::StableHow::kFileSync;
};

namespace internal {
// A completed I/O in its group's list.
struct GroupEntry {
  GroupEntry* next = nullptr;
  GroupEntry* prev = nullptr;
  virtual ~GroupEntry() = default;
  // Copies how it ended, and lets the I/O go.
  virtual void Collect(IoCompletion& out) = 0;
};
}  // namespace internal

class CompletionGroup {
 public:
  explicit CompletionGroup(dat::Loop& loop) : loop_(loop) {}
  ~CompletionGroup();  // everything was collected
  CompletionGroup(const CompletionGroup&) = delete;
  CompletionGroup& operator=(const CompletionGroup&) = delete;

  // Takes up to `out.size()` completions, in the order in which they ended; returns how many. If
  // there is none, lets the loop turn once, without sleeping and without a system call but those
  // of the transport (none on an RDMA device).
  size_t Poll(std::span<IoCompletion> out);

  // The same, but waits for the first one: until `timeout` has passed, or no I/O of the group is
  // out any more (0 is returned then).
  size_t Wait(std::span<IoCompletion> out, absl::Duration timeout = absl::InfiniteDuration());

  size_t out() const { return out_; }      // issued and not ended
  size_t ended() const { return ended_; }  // and not collected

 private:
  friend class AsyncIo;
  friend class BatchIo;
  void Issued() { ++out_; }
  void Ended(internal::GroupEntry& entry);
  void Remove(internal::GroupEntry& entry);
  size_t Take(std::span<IoCompletion> out);

  dat::Loop& loop_;
  size_t out_ = 0;
  size_t ended_ = 0;
  internal::GroupEntry* first_ = nullptr;
  internal::GroupEntry* last_ = nullptr;
};

}  // namespace dafs::client
