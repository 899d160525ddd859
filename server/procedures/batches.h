// The asynchronous batches of one session: requests that were acknowledged and not yet reported.
// Spec: 4.2.3, 5.2.3, 6.5.5, 6.5.16, 6.6.2; WIRE R78.
//
// Requests without a window begin at once, at most kBatchLanes of them at a time. Requests with a
// window begin after those, when the session has nothing else to do. When their window ends they
// are treated like the others.
//
// Completions are reported in groups of the size that the client requested. They are reported
// earlier if nothing else is outstanding, if a window ends, or if the client sends HURRY_UP.
//
// Belongs to the session's thread. Nothing of it survives the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "server/session/call.h"
#include "server/session/pending_work.h"
#include "wire/messages/batch.h"

namespace dafs::server {

class Session;

class Batches final : public PendingWork {
 public:
  // Returns the batches of the session, which owns them. Created by the first call.
  static Batches& Of(Session& session);

  explicit Batches(Session& session);
  ~Batches() override;
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // Checks whether the requests of `args` may be accepted now. INVAL: an id is outstanding already.
  // WHOA_COWBOY: too many requests are outstanding, or memory is short; never returned if none is
  // outstanding.
  wire::DafsStatus MayTake(const wire::BatchSubmitArgs& args) const;

  // Marks the ids of a synchronous batch as outstanding until EndSynchronous (R78). INVAL: one of
  // them is outstanding already.
  wire::DafsStatus BeginSynchronous(const std::vector<wire::RwRequest>& requests);
  void EndSynchronous(const std::vector<wire::RwRequest>& requests);

  // Queues the requests for the user of `call`; Begin starts them. `usec_window`: how long
  // they may wait, in microseconds; 0: not at all.
  void Take(const Call& call, uint32_t usec_window, std::vector<wire::RwRequest> requests);
  // Call it after the response to the call that queued requests.
  void Begin() override;

  // Sets the number of completions per report. 0: no change. Spec: 6.5.5.
  void Want(uint32_t num_completions);

  // Returns false if no request with that id is outstanding.
  bool HurryUp(uint64_t request_id);

  void Report() override;
  void Drop() override;
  bool running() const override { return running_ > 0; }

 private:
  struct Item;
  using Patient = std::multimap<absl::Time, std::unique_ptr<Item>>;  // by the end of the window

  Task<void> Execute(std::unique_ptr<Item> item);
  std::unique_ptr<Item> Next();
  void Done(Item& item);
  bool IsOutstanding(const wire::RwRequest& request) const;
  bool IsDue() const;
  size_t GroupSize() const;
  void SetTimer();
  void OnTimer();

  Session& session_;
  // Every outstanding id, with the place of its request in patient_, or end().
  absl::flat_hash_map<uint64_t, Patient::iterator> ids_;
  absl::flat_hash_set<uint64_t> synchronous_;
  Patient patient_;
  std::deque<std::unique_ptr<Item>> urgent_;
  std::deque<wire::CompletionNotification> done_;
  absl::Time report_by_ = absl::InfiniteFuture();  // deadline for reporting done_
  Loop::TimerId timer_ = 0;
  absl::Time timer_at_ = absl::InfiniteFuture();
  uint32_t running_ = 0;
  uint32_t wanted_ = 0;
  bool beginning_ = false;
  bool dropped_ = false;
};

}  // namespace dafs::server
