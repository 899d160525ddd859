// Keeps the alternate locations of the server: has a worker fetch them when they are due, and looks
// up the addresses of their hosts on a thread of its own. Spec: 5.3, A.5.
// Belongs to the thread of the control session's loop; nothing blocks.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "client/session/backoff.h"
#include "client/state/client.h"
#include "client/state/server/token_thread.h"
#include "runtime/loop/loop.h"

namespace dafs::client {

class FailoverKeeper {
 public:
  // Both outlive this.
  FailoverKeeper(Client& client, Loop& loop);
  FailoverKeeper(const FailoverKeeper&) = delete;
  FailoverKeeper& operator=(const FailoverKeeper&) = delete;

  void Start();     // any thread
  void Shutdown();  // before the loop ends

 private:
  void FetchSoon();
  void Fetch();
  void Fetched(bool has_news);
  void Resolve();

  Client& client_;
  Loop& loop_;
  TokenThread names_;  // not that of tokens: a name service may be slow when a server has failed
  std::shared_ptr<TokenThread::Job> job_;
  Loop::TimerId timer_ = 0;
  Backoff pauses_;  // between fetches
  absl::Time next_fetch_ = absl::InfinitePast();
  bool is_shut_down_ = false;
};

}  // namespace dafs::client
