// A request that modifies something: what it changes, and its waits for the clients that must be
// called first. The store returns DELAY if there are such clients; the request then waits for their
// answers and is executed again. It also waits for delegations that conflict with it to end.
// Spec: WIRE 9.6; draft 6.6.4.
// Belongs to the session's thread, except that MustCall runs where the store was called. Nothing
// blocks.
#pragma once

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "runtime/loop/loop_wait.h"
#include "runtime/loop/task.h"
#include "server/store/holdings/caller.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class Session;

class Modification {
 public:
  // The most waits of one request; after these it fails with DELAY. Each wait lasts at most
  // recall-time, and is followed by another one only if something was promised meanwhile.
  static constexpr int kMostWaits = 16;

  // Sets caller.changing and caller.awaited until the end. `session` and `caller` outlive this.
  Modification(Session& session, Caller& caller);
  ~Modification() {
    caller_.changing = nullptr;
    caller_.awaited = nullptr;
  }
  Modification(const Modification&) = delete;
  Modification& operator=(const Modification&) = delete;

  // Whether clients must be called, after the store has returned `status`. If so, await Call. Then
  // call the store again if it repeats().
  bool MustCall(wire::DafsStatus status);
  // True: the store changed nothing, and is called again. False: the request is executed, and
  // clients are called before the response: a client has read the attributes of the new object
  // while they were being set.
  bool repeats() const { return repeats_; }
  // The request is executed. Returns whether the names in the directories that it changed are
  // promised to its client.
  bool Keep() { return changing_.Keep(); }
  // Calls the clients and waits until each has answered or is void, and until all delegations that
  // are awaited have ended. Returns false if the session has ended: the request is not to be
  // executed.
  Task<bool> Call();

 private:
  Session& session_;
  Caller& caller_;
  Promises::Changing changing_;
  std::vector<Promises::Call> calls_;  // to be made
  AwaitedDelegations awaited_;
  int waits_ = 0;
  bool repeats_ = true;
};

// The waits of the requests of one session, which end with it.
class HolderWaits {
 public:
  // Waits for a wake-up. Returns false if End came before it.
  Task<bool> Await(LoopWait& wait);
  // Resumes every request that waits. Later waits end at once.
  void End();

 private:
  absl::flat_hash_set<LoopWait*> waits_;
  bool ended_ = false;
};

}  // namespace dafs::server
