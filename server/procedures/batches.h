// The asynchronous batches of one session: requests that were acknowledged and are not reported
// yet. Spec: 4.2.3, 5.2.3, 6.5.5, 6.5.16, 6.6.2; WIRE R78.
//
// Requests without a window go at once, kBatchLanes of them at a time. Those with one come after
// them, when the session has nothing else to do, until their window is over: then they are like the
// others. What is done is reported in groups of the size the client wants, and earlier when nothing
// is left to be done, when a window is over, or when the client asked to hurry.
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
#include "runtime/loop.h"
#include "runtime/task.h"
#include "server/session/call.h"
#include "wire/messages/batch.h"

namespace dafs::server {

class Session;

class Batches {
 public:
  explicit Batches(Session& session);
  ~Batches();  // nothing is running
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // Whether the requests of `args` may be taken now. INVAL: an id is outstanding. WHOA_COWBOY: they
  // are too many beside those that are outstanding; never without any.
  wire::DafsStatus MayTake(const wire::BatchSubmitArgs& args) const;

  // A synchronous batch is being executed: its ids are outstanding till its end (R78). INVAL: one
  // of them is already.
  wire::DafsStatus BeginSynchronous(const std::vector<wire::RwRequest>& requests);
  void EndSynchronous(const std::vector<wire::RwRequest>& requests);

  // Takes them, as `call` asks; begins nothing yet.
  void Take(const Call& call, wire::BatchSubmitArgs args);
  // Begins what may begin. After the answer to the call.
  void Begin();

  // The completions that the client wants at a time. 0: as before. Spec: 6.5.5.
  void Want(uint32_t num_completions);

  // False: nothing with that id is outstanding.
  bool HurryUp(uint64_t request_id);

  // The channel may take a directive again.
  void Report();
  // The session is over: what has not begun never will.
  void Drop();

  bool running() const { return running_ > 0; }

 private:
  struct Item;
  using Patient = std::multimap<absl::Time, std::unique_ptr<Item>>;  // by the end of the window

  dat::Task<void> Execute(std::unique_ptr<Item> item);
  std::unique_ptr<Item> Next();
  void Done(Item& item);
  bool IsOutstanding(const wire::RwRequest& request) const;
  bool IsDue() const;
  size_t GroupSize() const;
  void SetTimer();
  void OnTimer();

  Session& session_;
  // Every id that is outstanding: where its request waits, if it does.
  absl::flat_hash_map<uint64_t, Patient::iterator> ids_;
  absl::flat_hash_set<uint64_t> synchronous_;
  Patient patient_;
  std::deque<std::unique_ptr<Item>> urgent_;
  std::deque<wire::CompletionNotification> done_;
  absl::Time report_by_ = absl::InfiniteFuture();  // what is done
  dat::Loop::TimerId timer_ = 0;
  absl::Time timer_at_ = absl::InfiniteFuture();
  uint32_t running_ = 0;
  uint32_t wanted_ = 0;
  bool beginning_ = false;
  bool dropped_ = false;
};

}  // namespace dafs::server
