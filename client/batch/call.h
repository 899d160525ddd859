// BATCH_SUBMIT and its items. For client/batch/*.cc only. Spec: 6.5.5, 5.2.3; WIRE 9.4.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "client/batch/batch.h"
#include "client/memory/exposure.h"
#include "client/recovery/server_delay.h"
#include "client/session/call.h"

namespace dafs::client {

enum class Batches::State : uint8_t {
  kQueued,    // in a queue
  kSending,   // in a call
  kAccepted,  // the server accepted it and will report it
  kPausing,   // the server requested a delay
  kClosing,   // its memory windows are being closed; then `then` runs
  kEnded,
};

// Shared by the items of one Submit or Run.
struct Batches::Group {
  Identity who;
  BatchOptions options;
  BatchSink* sink = nullptr;
  std::shared_ptr<Queue> queue;  // owners: its groups, and Batches or its Run
  absl::Time deadline;
};

struct Batches::Entry {
  uint64_t id = 0;
  BatchItem item;
  std::shared_ptr<Group> group;  // owners: its entries
  State state = State::kQueued;
  wire::StateId state_id;  // the server's present state id for item.state_id
  // The windows to its memory, in session `windows_of` (Exposure::session), and the server's names
  // for them.
  WindowContexts windows;
  uint64_t windows_of = 0;
  wire::DirectOpBuffers buffers;
  absl::AnyInvocable<void()> then;  // with kClosing: runs once the windows are closed
  bool hurried = false;             // HurryUp was called: sent first, and reported without delay
  bool overlap_committed = false;   // CommitOverlapped has run; it runs once
  absl::Status timed_out;           // the result once its memory is safe
  ServerDelay delay;
  int reclaims = 0;
  int damaged = 0;
};

// Items to be sent, in order.
struct Batches::Queue {
  Queue(Loop& loop, bool is_synchronous) : synchronous(is_synchronous), wake(loop) {}
  const bool synchronous;
  std::deque<EntryRef> todo;
  WaitList wake;  // for Run: there are items to send, or there will be no more
};

// The result of everything after Shutdown.
inline absl::Status ClientEnds() { return absl::CancelledError("the client ends"); }

class BatchCall final : public Call<wire::BatchSubmitArgs> {
 public:
  // `owner` outlives it.
  BatchCall(Batches& owner, std::vector<Batches::EntryRef> entries)
      : owner_(owner), entries_(std::move(entries)) {}

  // 5.2.3: if its completions were lost, it is sent again.
  bool idempotent() const override { return true; }
  bool outlives_answer() const override { return !args.synchronous && !entries_.empty(); }
  std::optional<wire::StateId> NameItems(const Opens& opens,
                                         const wire::ClientId& client_id) override;
  absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                std::span<std::byte> out, bool checksums) override;

  const std::vector<Batches::EntryRef>& entries() const { return entries_; }

 private:
  absl::Status Expose(Batches::Entry& entry);

  Batches& owner_;
  std::vector<Batches::EntryRef> entries_;
};

}  // namespace dafs::client
