// Batches: many reads and writes of any files in one request, each with lists of file regions and
// of memory. Either the answer brings all results (Run), or the server takes the requests and
// reports each when it is done, by the Back-control Channel (Submit).
// Spec: 4.2.3, 5.2.3, 6.1.7, 6.5.5 (BATCH_SUBMIT), 6.5.16 (HURRY_UP), 6.6.2; WIRE R78, R88.
//
// Belongs to the thread of its Files, which owns it. Nothing blocks.
//
// What the server does in what order is its own affair: who needs an order, waits (4.2.3-01). When
// the session is lost, what was not reported is issued again on the next one: a write may happen
// twice, a read may see what others have written meanwhile (5.2.3). A write that was reported is on
// stable storage. DELAY, GRACE, lost opens and damaged data are dealt with here, as Files does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/recovery/data_calls.h"
#include "client/session/back_control.h"
#include "client/state/identity.h"
#include "runtime/loop.h"
#include "runtime/task.h"
#include "runtime/wait_list.h"
#include "wire/codec/checksum.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class BatchCall;
class Connection;
class Files;
class Session;

// The memory of one item: the server writes it for reads and reads it for writes, and is registered
// for that by whoever owns it. It stays the server's until the item's result is there; memory
// windows are ended before that is looked at.
class BatchData {
 public:
  virtual ~BatchData() = default;
  virtual uint64_t size() const = 0;
  // The buffers that the server will know it by; at most 256.
  virtual size_t buffers() const = 0;
  // Opens it to the server, and says how that names it, in order: for a request that is being
  // encoded, since each session registers it anew. Errors as of Exposure::Expose.
  virtual absl::Status Expose(wire::DirectOpBuffers& to) const = 0;
  // Of its first `count` bytes.
  virtual wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const = 0;
};

// Part of a lease as such memory.
class LeaseBatchData final : public BatchData {
 public:
  explicit LeaseBatchData(const LeasePart& part) : part_(part) {}
  uint64_t size() const override { return part_.size; }
  size_t buffers() const override { return 1; }
  absl::Status Expose(wire::DirectOpBuffers& to) const override { return part_.Expose(to); }
  wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const override {
    return wire::ComputeChecksum(part_.bytes().first(count), order);
  }

 private:
  LeasePart part_;
};

// One read or write. Chunks and memory hold the same number of bytes in all; apart from that they
// need not match: the bytes of the one, in order, are those of the other.
struct BatchItem {
  wire::RwFlag rw_flag = wire::RwFlag::kRead;
  wire::FileHandle file;
  wire::StateId state_id;  // as Files gives it out; zero: none
  // At most 256, with wire::CacheHintRead and CacheHintWrite as they apply.
  absl::InlinedVector<wire::FileChunk, 2> chunks;
  const BatchData* data = nullptr;  // borrowed until the result is there
  uint64_t cookie = 0;              // the caller's own, for BatchSink
};

// OK: `bytes_transferred` bytes went, from the first on. Fewer than asked for is no error: a read
// met the end of the file and ends there, or the server did less. Otherwise the error, as of a
// Read or Write of Files; what had gone before it does not count.
struct BatchResult {
  absl::Status status;
  uint32_t bytes_transferred = 0;
};

// Where the results of Submit go.
class BatchSink {
 public:
  virtual ~BatchSink() = default;
  // The item with `cookie` has ended, in any order; the server can touch its memory no more. Once
  // for each item, never before Submit returns. May submit, hurry and cancel.
  virtual void OnBatchDone(uint64_t cookie, const BatchResult& result) = 0;
};

struct BatchOptions {
  // How long the results may take: the server puts such items behind others. Zero: in a hurry like
  // any other request. Rounded to microseconds, at most 71 minutes.
  absl::Duration window;
  // How many results the server shall report at a time; 0: as before. It counts for all that the
  // session has out.
  uint32_t num_completions = 0;
};

class Batches final : public BackControlHandler {
 public:
  // All outlive it.
  Batches(Files& files, Connection& connection, dat::Loop& loop);
  ~Batches() override;  // after Shutdown

  // Does all of `items`, which outlive the task; results in their order. One round trip for as many
  // as a message takes (256 at most). An error instead: nothing is known of any of them.
  // kInvalidArgument: a list that breaks the rules above; nothing was sent. kCancelled: Shutdown.
  dat::Task<absl::StatusOr<std::vector<BatchResult>>> Run(const Identity& who,
                                                          std::span<const BatchItem> items);

  // Gives `items` away, in order, with those before them; copied, but for the memory. Returns the
  // request ids: the first, then one by one. `sink` outlives the items. Needs no Back-control
  // Channel: without one they go in batches whose answer brings the results.
  // kInvalidArgument, kCancelled: as Run; the sink hears nothing.
  absl::StatusOr<uint64_t> Submit(const Identity& who, std::vector<BatchItem> items,
                                  const BatchOptions& options, BatchSink& sink);

  // The item `request_id` has no window any more. OK when the server knows. kNotFound: its result
  // was there already; kUnimplemented: the server does not look at windows.
  dat::Task<absl::Status> HurryUp(uint64_t request_id);

  // Ends an item that has not been sent (it waits behind others, or for the server to breathe): its
  // sink hears kCancelled before this returns. False: it is at the server, or over.
  bool Cancel(uint64_t request_id);

  // BatchOptions::num_completions, now and for the sessions to come.
  dat::Task<absl::Status> WantCompletions(uint32_t num_completions);

  // For reports and tests.
  struct Counts {
    size_t queued = 0;       // not at the server
    size_t outstanding = 0;  // at the server, or on the way
    uint64_t submitted = 0;  // BATCH_SUBMIT requests that the server took
    uint64_t reported = 0;   // BC_BATCH_COMPLETION directives received
    uint64_t throttled = 0;  // WHOA_COWBOY answers
    uint64_t reissued = 0;   // items issued again on another session
  };
  Counts counts() const;

  // For Files: there is a session, it is over, the end.
  void SessionReady(Session& session);
  void SessionLost();
  void Shutdown();

  // By the Back-control Channel.
  void OnBatchCompletion(const std::vector<wire::CompletionNotification>& completions) override;

 private:
  friend class BatchCall;
  enum class State : uint8_t;
  struct Group;
  struct Entry;
  struct Queue;
  using EntryRef = std::shared_ptr<Entry>;  // owners: entries_, the queue or call it is in

  static constexpr absl::Duration kThrottleLeast = absl::Milliseconds(1);

  absl::Status Check(std::span<const BatchItem> items) const;
  EntryRef NewEntry(BatchItem item, const std::shared_ptr<Group>& group);
  // `then` runs when the server can reach the item's memory no more by a window, perhaps before
  // this returns; meanwhile the item is kClosing.
  void AfterWindows(const EntryRef& entry, absl::AnyInvocable<void()> then);
  void WindowsEnded(const EntryRef& entry);
  void SetState(Entry& entry, State state);
  void Requeue(const EntryRef& entry);
  void RequeueLater(const EntryRef& entry);
  void End(const EntryRef& entry, absl::Status status, uint32_t bytes_transferred = 0);
  void Tell(const EntryRef& entry, BatchResult result);
  void EndAll(Queue& queue, const absl::Status& why);

  // send.cc
  void StartPump();
  dat::Task<void> Pump();
  dat::Task<absl::Status> AwaitBreath(Queue& queue, absl::Time deadline);
  bool LacksWindows(const Queue& queue) const;
  std::vector<EntryRef> TakeFront(Queue& queue, const Session& session, bool synchronous);
  bool OverlapsKept(const Entry& entry) const;
  dat::Task<absl::Status> CommitOverlapped(EntryRef entry);
  // Sends what is first in `queue`, and takes note of what came of it.
  dat::Task<absl::Status> SendFront(Queue& queue);
  absl::Status LossOf(const Entry& entry) const;
  void Failed(const BatchCall& call, const absl::Status& status);
  void Answered(BatchCall& call);

  // results.cc
  // One item was reported.
  void Take(const EntryRef& entry, const wire::CompletionNotification& done);
  enum class Verdict : uint8_t { kEnd, kAgain, kLater };
  Verdict Judge(Entry& entry, const wire::CompletionNotification& done, absl::Status* why);
  void ForgetWritten(const Entry& entry, uint32_t bytes) const;
  dat::Task<absl::Status> SendHurryUp(uint64_t request_id);
  dat::Task<void> HurryLater(uint64_t request_id);
  void Watch();
  dat::Task<void> Probe();

  Files& files_;
  Connection& connection_;
  dat::Loop& loop_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, EntryRef> entries_;  // those that have not ended
  std::shared_ptr<Queue> queue_;                     // of Submit; owners: its groups too
  WaitList breath_;                                  // who may not submit, or lacks windows
  absl::Duration throttle_delay_ = kThrottleLeast;
  uint32_t wanted_completions_ = 0;
  size_t accepted_ = 0;     // items that the server has taken and not reported
  size_t windows_out_ = 0;  // memory windows of items
  Counts counts_;
  absl::Time last_heard_;  // of an item
  dat::Loop::TimerId pump_timer_ = 0;
  dat::Loop::TimerId watch_timer_ = 0;
  bool throttled_ = false;
  bool pumping_ = false;
  bool probing_ = false;
  bool shut_down_ = false;
};

}  // namespace dafs::client
