// An item of a batch until its result is known. For client/batch only. Spec: 5.2.3.
// Belongs to the thread of the Batches.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/batch/batch_item.h"
#include "client/memory/remote_access.h"
#include "client/recovery/calls/server_delay.h"
#include "client/state/records/identity.h"
#include "runtime/doubling_pause.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/wait_list.h"
#include "wire/protocol/types.h"

namespace dafs::client {

// The result of everything after Shutdown.
inline absl::Status ClientEnds() { return absl::CancelledError("the client ends"); }

struct BatchEntry;
struct BatchQueue;
using BatchEntryRef = std::shared_ptr<BatchEntry>;  // owners: BatchEntries, and its queue or call

enum class BatchState : uint8_t {
  kQueued,    // in a queue
  kSending,   // in a call
  kAccepted,  // the server accepted it and will report it
  kPausing,   // the server requested a delay
  kClosing,   // its memory windows are being closed; then `then` runs
  kEnded,
};

// Shared by the items of one Submit or Run.
struct BatchGroup {
  Identity user;
  BatchOptions options;
  BatchSink* sink = nullptr;
  std::shared_ptr<BatchQueue> queue;  // owners: its groups, and Batches or its Run
  absl::Time deadline;
};

struct BatchEntry {
  uint64_t id = 0;                    // of the item; never used again
  BatchItem item;                     // as the caller has submitted it
  std::shared_ptr<BatchGroup> group;  // owners: its entries
  BatchState state = BatchState::kQueued;
  wire::StateId state_id;  // the server's present state id for item.state_id
  // The windows to its memory, in session `windows_of` (RemoteAccess::session), and the server's
  // names for them.
  WindowContexts windows;
  uint64_t windows_of = 0;
  wire::DirectOpBuffers buffers;
  absl::AnyInvocable<void()> then;  // with kClosing: runs once the windows are closed
  bool hurried = false;             // HurryUp was called: sent first, and reported without delay
  bool overlap_committed = false;   // CommitOverlapped has run; it runs once
  // Not OK: reported once the server cannot access the memory any more.
  absl::Status timed_out;
  DoublingPause delay = ServerDelay();  // until it is sent again, after DELAY or GRACE
  int reclaims = 0;                     // how often the server did not know the state id
  int damaged = 0;                      // how often the data had a wrong checksum
};

// Items to be sent, in order.
struct BatchQueue {
  BatchQueue(Loop& loop, bool is_synchronous) : synchronous(is_synchronous), wake(loop) {}
  const bool synchronous;
  std::deque<BatchEntryRef> todo;
  WaitList wake;  // for Run: there are items to send, or there will be no more
};

}  // namespace dafs::client
