// Finds out that the state directory is no longer this server's: another machine has evicted this
// one from the cluster file system, or this one is cut off from it. The server must end then,
// because another head may serve. Spec: docs/availability.md (several heads).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/clients/state_lock.h"

namespace dafs::server {

class StateWatch {
 public:
  struct Options {
    absl::Duration every = absl::Seconds(1);
    // CephFS may give the lock to another client once it has not heard from this one for
    // session_timeout (60 s). Its clients report every third of that, so 40 s after the last answer
    // at the earliest. The rest is for the end of this process.
    absl::Duration answers_within = absl::Seconds(35);
  };
  // Calls `check` again and again, each time in a thread that may block. Calls `lost` once, from
  // another thread, with the reason, after `check` has failed or has not returned in time.
  StateWatch(std::function<absl::Status()> check, const Options& options,
             std::function<void(const std::string&)> lost);
  // Does not wait for a check that hangs.
  ~StateWatch();
  StateWatch(const StateWatch&) = delete;
  StateWatch& operator=(const StateWatch&) = delete;

  // Watches the lock on `state_dir`. Null if the kernel alone serves its file system: the lock
  // falls with the process then.
  static std::unique_ptr<StateWatch> For(const StateLock& lock, const std::string& state_dir,
                                         std::function<void(const std::string&)> lost);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;  // with the thread of the checks, which may hang
  std::thread timer_;
};

// Logs `why`, closes all connections without an answer, and ends the process.
[[noreturn]] void EndAtOnce(const std::string& why);

// Calls EndAtOnce if mapped memory cannot be read or written (SIGBUS): the file system of the state
// directory does not give or take its pages any more.
void EndAtLostMemory();

}  // namespace dafs::server
