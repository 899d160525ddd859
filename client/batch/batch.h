// Batches: many reads and writes of any files in one request, each with lists of file regions and
// of memory. Either the reply contains all results (Run), or the server accepts the requests and
// reports each when it is done, on the Back-control Channel (Submit).
// Spec: 4.2.3, 5.2.3, 6.1.7, 6.5.5 (BATCH_SUBMIT), 6.5.16 (HURRY_UP), 6.6.2; WIRE R78, R88.
//
// Belongs to the thread of its Files. Nothing blocks.
//
// The server chooses the order. A caller that needs an order waits for a result before it submits
// the next item (4.2.3-01). When the session is lost, the client sends the unreported items again
// on the next session: a write may happen twice, a read may see later writes of other clients
// (5.2.3). A write that was reported is on stable storage. DELAY, GRACE, lost opens and damaged
// data are handled here, as in Files.
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
#include "client/files/operations.h"
#include "client/files/session_observer.h"
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
class Files;
class Session;

// The memory of one item. The server writes it for reads and reads it for writes; its owner has
// registered it for that. The server may use it until the item's result is available. Memory
// windows are closed before the client uses the result.
class BatchData {
 public:
  virtual ~BatchData() = default;
  virtual uint64_t size() const = 0;
  // The number of buffers that name it in a request; at most 256.
  virtual size_t buffers() const = 0;
  // Opens it to the server, and stores the server's names for its buffers in `to`, in order. Called
  // while a request is encoded, because each session registers the memory again. Errors as of
  // Exposure::Expose.
  virtual absl::Status Expose(wire::DirectOpBuffers& to) const = 0;
  // The checksum of the first `count` bytes.
  virtual wire::Checksum Checksum(uint32_t count, wire::ByteOrder order) const = 0;
};

// Part of a buffer lease as the memory of an item.
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

// One read or write. Chunks and memory have the same total length, but may be divided differently:
// the bytes of the chunks, in order, are the bytes of the memory.
struct BatchItem {
  wire::RwFlag rw_flag = wire::RwFlag::kRead;
  wire::FileHandle file;
  wire::StateId state_id;  // as returned by an operation; zero: none
  // At most 256. Set wire::CacheHintRead or CacheHintWrite as they apply.
  absl::InlinedVector<wire::FileChunk, 2> chunks;
  const BatchData* data = nullptr;  // borrowed until the result is available
  uint64_t cookie = 0;              // the caller's, for BatchSink
};

// OK: the first `bytes_transferred` bytes were transferred. Fewer than requested is not an error: a
// read reached the end of the file, or the server did less. Otherwise `status` is the error, as of
// a Read or Write of DataOperations; bytes transferred before the error do not count.
struct BatchResult {
  absl::Status status;
  uint32_t bytes_transferred = 0;
};

// Receives the results of Submit.
class BatchSink {
 public:
  virtual ~BatchSink() = default;
  // The item with `cookie` has ended; the server can no longer access its memory. Called once for
  // each item, in any order, never before Submit returns. May submit, hurry and cancel.
  virtual void OnBatchDone(uint64_t cookie, const BatchResult& result) = 0;
};

struct BatchOptions {
  // How long the results may take: the server may serve other requests before such items. Zero: as
  // urgent as any other request. Rounded to microseconds, at most 71 minutes.
  absl::Duration window;
  // How many results the server should report at a time; 0: unchanged. Applies to all outstanding
  // items of the session.
  uint32_t num_completions = 0;
};

class Batches final : public OperationGroup, public BackControlHandler, private SessionObserver {
 public:
  // `files` outlives it.
  explicit Batches(Files& files);
  ~Batches() override;  // after Files::Shutdown, or when no item is outstanding

  // Executes all of `items`, which outlive the task; returns results in their order. One round trip
  // for as many items as fit into a message (256 at most). After an error the outcome of every item
  // is unknown. kInvalidArgument: a list breaks the rules above; nothing was sent. kCancelled:
  // Shutdown.
  Task<absl::StatusOr<std::vector<BatchResult>>> Run(const Identity& who,
                                                     std::span<const BatchItem> items);

  // Queues `items`, in order, after those queued before. Copies them, except the memory. Returns
  // the first of their consecutive request ids. `sink` outlives the items. Works without a
  // Back-control Channel: then the replies contain the results. kInvalidArgument, kCancelled: as
  // for Run; `sink` is not called.
  absl::StatusOr<uint64_t> Submit(const Identity& who, std::vector<BatchItem> items,
                                  const BatchOptions& options, BatchSink& sink);

  // Cancels the time window of item `request_id`: it is urgent now. OK: the server
  // knows that, or the item will be sent as urgent.
  // kNotFound: the result has already arrived; kUnimplemented: the server ignores windows.
  Task<absl::Status> HurryUp(uint64_t request_id);

  // Ends an item that has not been sent (it waits for others, or for the server to accept more):
  // calls its sink with kCancelled before this returns. False: the item has been sent, or has
  // ended.
  bool Cancel(uint64_t request_id);

  // Sets BatchOptions::num_completions, for this session and later ones.
  Task<absl::Status> WantCompletions(uint32_t num_completions);

  // For reports and tests.
  struct Counts {
    size_t queued = 0;       // not at the server
    size_t outstanding = 0;  // at the server, or being sent
    uint64_t submitted = 0;  // BATCH_SUBMIT requests that the server accepted
    uint64_t reported = 0;   // BC_BATCH_COMPLETION directives received
    uint64_t throttled = 0;  // WHOA_COWBOY replies
    uint64_t reissued = 0;   // items sent again on another session
  };
  Counts counts() const;

  // Called for the Back-control Channel.
  void OnBatchCompletion(const std::vector<wire::CompletionNotification>& completions) override;

 private:
  friend class BatchCall;
  void SessionReady(Session& session) override;
  void SessionLost() override;
  void Shutdown() override;

  enum class State : uint8_t;
  struct Group;
  struct Entry;
  struct Queue;
  using EntryRef = std::shared_ptr<Entry>;  // owners: entries_, and the queue or call it is in

  static constexpr absl::Duration kThrottleLeast = absl::Milliseconds(1);

  absl::Status Check(std::span<const BatchItem> items) const;
  EntryRef NewEntry(BatchItem item, const std::shared_ptr<Group>& group);
  // Runs `then` once the server can no longer reach the item's memory by a window, possibly before
  // this returns. Until then the item is kClosing.
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
  Task<void> Pump();
  Task<absl::Status> AwaitBreath(Queue& queue, absl::Time deadline);
  bool LacksWindows(const Queue& queue) const;
  std::vector<EntryRef> TakeFront(Queue& queue, const Session& session, bool synchronous);
  bool OverlapsKept(const Entry& entry) const;
  Task<absl::Status> CommitOverlapped(EntryRef entry);
  // Sends the first items of `queue`, and records the result.
  Task<absl::Status> SendFront(Queue& queue);
  absl::Status LossOf(const Entry& entry) const;
  void Failed(const BatchCall& call, const absl::Status& status);
  void Answered(BatchCall& call);

  // results.cc
  // Handles the report of one item.
  void Take(const EntryRef& entry, const wire::CompletionNotification& done);
  enum class Verdict : uint8_t { kEnd, kAgain, kLater };
  Verdict Judge(Entry& entry, const wire::CompletionNotification& done, absl::Status* why);
  void ForgetWritten(const Entry& entry, uint32_t bytes) const;
  Task<absl::Status> SendHurryUp(uint64_t request_id);
  Task<void> HurryLater(uint64_t request_id);
  void Watch();
  Task<void> Probe();

  Files& files_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<uint64_t, EntryRef> entries_;  // those that have not ended
  std::shared_ptr<Queue> queue_;                     // of Submit; owners: also its groups
  WaitList breath_;  // callers that may not submit yet, or lack windows
  absl::Duration throttle_delay_ = kThrottleLeast;
  uint32_t wanted_completions_ = 0;
  size_t accepted_ = 0;     // items that the server accepted and has not reported
  size_t windows_out_ = 0;  // memory windows of items
  Counts counts_;
  absl::Time last_heard_;  // last report of an item
  Loop::TimerId pump_timer_ = 0;
  Loop::TimerId watch_timer_ = 0;
  bool throttled_ = false;
  bool pumping_ = false;
  bool probing_ = false;
  bool shut_down_ = false;
};

}  // namespace dafs::client
