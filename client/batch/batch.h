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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/batch/batch_entries.h"
#include "client/batch/batch_entry.h"
#include "client/batch/batch_item.h"
#include "client/files/shared/operations.h"
#include "client/files/shared/session_observer.h"
#include "client/session/back_control.h"
#include "client/state/records/identity.h"
#include "runtime/doubling_pause.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "runtime/loop/wait_list.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class BatchCall;
class Files;
class Session;

class Batches final : public OperationGroup, public BackControlHandler, private SessionObserver {
 public:
  // `files` outlives it.
  explicit Batches(Files& files);
  ~Batches() override;  // after Files::Shutdown, or when no item is outstanding

  // Executes all of `items`, which outlive the task; returns results in their order. One round trip
  // for as many items as fit into a message (256 at most). After an error the outcome of every item
  // is unknown. kInvalidArgument: a list breaks the rules above; nothing was sent. kCancelled:
  // Shutdown.
  Task<absl::StatusOr<std::vector<BatchResult>>> Run(const Identity& user,
                                                     std::span<const BatchItem> items);

  // Queues `items`, in order, after those queued before. Copies them, except the memory. Returns
  // the first of their consecutive request ids. `sink` outlives the items. Works without a
  // Back-control Channel: then the replies contain the results. kInvalidArgument, kCancelled: as
  // for Run; `sink` is not called.
  absl::StatusOr<uint64_t> Submit(const Identity& user, std::vector<BatchItem> items,
                                  const BatchOptions& options, BatchSink& sink);

  // Cancels the time window of item `request_id`: it is urgent now. OK: the server
  // knows that, or the item will be sent as urgent.
  // kNotFound: the result has already arrived; kUnimplemented: the server ignores windows.
  Task<absl::Status> HurryUp(uint64_t request_id);

  // Ends an item that has not been sent (it waits for others, or for the server to accept more):
  // calls its sink with kCancelled before this returns. False: the item has been sent, or has
  // ended.
  bool Cancel(uint64_t request_id);

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
  void SessionReady(Session& session) override;
  void SessionLost() override;
  void Shutdown() override;

  absl::Status Check(std::span<const BatchItem> items) const;
  void Requeue(const BatchEntryRef& entry);
  void RequeueLater(const BatchEntryRef& entry);

  // send.cc
  void StartPump();
  Task<void> Pump();
  Task<absl::Status> AwaitSubmit(BatchQueue& queue, absl::Time deadline);
  bool LacksWindows(const BatchQueue& queue) const;
  std::vector<BatchEntryRef> TakeFront(BatchQueue& queue, const Session& session, bool synchronous);
  Task<absl::Status> CommitOverlapped(BatchEntryRef entry);
  // Sends the first items of `queue`, and records the result.
  Task<absl::Status> SendFront(BatchQueue& queue);
  void Failed(const BatchCall& call, const absl::Status& status);
  void Answered(BatchCall& call);

  // results.cc
  // Handles the report of one item.
  void Take(const BatchEntryRef& entry, const wire::CompletionNotification& done);
  Task<absl::Status> SendHurryUp(uint64_t request_id);
  Task<void> HurryLater(uint64_t request_id);
  void Watch();
  Task<void> Probe();

  Files& files_;
  std::shared_ptr<BatchQueue> queue_;  // of Submit; owners: also its groups
  WaitList submit_waiters_;            // callers that may not submit yet, or lack windows
  BatchEntries entries_{session_keeper_, submit_waiters_};
  DoublingPause throttle_delay_{absl::Milliseconds(1), absl::Seconds(1)};
  uint32_t wanted_completions_ = 0;
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
