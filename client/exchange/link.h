// The connection of a session: its endpoint, and whether it can be used. The parts of the session
// share it. Each posts on the endpoint, and fails the connection if a post fails.
// Spec: 3.1.2.5 (the session ends with its connection), 6.2.6.
//
// Belongs to the thread of its loop. Nothing blocks.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class Link {
 public:
  enum class State : uint8_t {
    kConnecting,  // from Open until the session is established
    kUp,
    kDying,  // aborted or closing; the server may still access memory
    kDead,   // the server cannot access memory any more
  };

  // `session` polls the endpoint. Both must outlive this.
  Link(Loop& loop, Pollable& session) : loop_(loop), session_(session) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void Open(std::unique_ptr<dat::Endpoint> endpoint) { endpoint_ = std::move(endpoint); }
  bool has_endpoint() const { return endpoint_ != nullptr; }
  dat::Endpoint& endpoint() const { return *endpoint_; }
  // Call after a post outside of the session's Poll.
  void RequestPoll() { loop_.RequestPoll(&session_); }

  State state() const { return state_; }
  bool usable() const { return state_ < State::kDying; }
  const absl::Status& why() const { return why_; }  // valid once it is not usable
  // The error of a request that the end of the session cut off.
  absl::Status Lost() const;

  // Waits for the connection. Call once. kUnavailable: there is none by `deadline`. Other errors:
  // why().
  Task<absl::Status> Connected(absl::Time deadline);
  void Established() { state_ = State::kUp; }

  // Aborts the connection; kDisconnected follows. Has no effect on a connection that is ending.
  void Fail(absl::Status why);
  // Closes the connection in order; kDisconnected follows.
  void Close(absl::Status why);
  // Waits until ResumeWaiters is called.
  Task<void> Closed();

  // For the session. On kConnected; on kDisconnected (keeps an earlier reason); on its end by the
  // client; destroys the endpoint.
  void OnConnected();
  void OnDisconnected(const absl::Status& why);
  void SetDead(absl::Status why);
  void Destroy() { endpoint_.reset(); }
  // Resumes the waiters in Connected and Closed. Call when dead.
  void ResumeWaiters();

 private:
  Loop& loop_;
  Pollable& session_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  State state_ = State::kConnecting;
  absl::Status why_;
  Pending<bool>* connecting_ = nullptr;  // true: connected; false: dead
  Pending<bool>* closing_ = nullptr;     // set when dead
};

}  // namespace dafs::client
