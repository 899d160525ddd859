// The transport connection of a session or of one of its channels, from Accept to its end. A fault
// ends a connection; none is repaired.
// Spec: appendix B, 6.2.6 (an orderly end).
// Belongs to the worker's thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/loop/loop.h"
#include "server/store/objects/export.h"
#include "wire/dat/dat.h"

namespace dafs::server {

// The cookie of a post, which its completion returns.
template <class T>
uint64_t CookieOf(T* object) {
  return reinterpret_cast<uintptr_t>(object);
}
template <class T>
T* FromCookie(uint64_t cookie) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): from CookieOf
  return reinterpret_cast<T*>(static_cast<uintptr_t>(cookie));
}

class Connection {
 public:
  // `source` polls the connection in `loop`. Both and `domain` outlive it.
  Connection(Loop& loop, Pollable& source, dat::Domain& domain,
             std::unique_ptr<dat::Endpoint> endpoint);
  ~Connection() { Close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Destroys the endpoint. After it returns, the transport uses no buffer, and no post may follow.
  void Close();

  Loop& loop() { return loop_; }
  dat::Domain& domain() { return domain_; }
  const dat::Domain& domain() const { return domain_; }
  const Peer& peer() const { return peer_; }
  // The client has authenticated as `principal` (Peer); null: it has not.
  void SetPrincipal(std::shared_ptr<const std::string> principal) {
    peer_.principal = std::move(principal);
  }
  const std::string& peer_name() const { return peer_name_; }
  std::string description() const { return endpoint_->description(); }
  // For posts and facts. After a post outside of a turn, call Posted.
  dat::Endpoint& endpoint() { return *endpoint_; }

  // A turn of the loop: takes completions. Posts until EndTurn leave with it at the latest.
  size_t BeginTurn(std::span<dat::Completion> completions);
  void EndTurn();
  bool in_turn() const { return in_turn_; }
  // Work was posted. Outside of a turn, the loop must poll the endpoint before it sleeps.
  void Posted() {
    if (!in_turn_ && !disconnected_) loop_.RequestPoll(&source_);
  }

  // Ends the connection now. `why` is logged unless an earlier reason was given.
  void Abort(absl::Status why);
  // Ends it in order: posted work is sent first. Aborts it if the peer does not close in time.
  void End(absl::Status why);
  // Takes no further request, and ends in order unless the peer closes within `delay`.
  void EndAfter(absl::Duration delay);
  // Aborts it after `limit`, unless CancelLimit is called before.
  void LimitTo(absl::Duration limit, absl::Status why);
  void CancelLimit();
  // kDisconnected was seen. `why` becomes the reason unless this side has ended the connection.
  void OnDisconnected(const absl::Status& why);

  bool ending() const { return ending_; }  // takes no further request
  bool disconnected() const { return disconnected_; }
  const absl::Status& end_reason() const { return end_reason_; }

 private:
  Loop& loop_;
  Pollable& source_;
  dat::Domain& domain_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  Peer peer_;
  const std::string peer_name_;
  bool in_turn_ = false;
  bool ending_ = false;
  bool disconnected_ = false;
  absl::Status end_reason_;
  Loop::TimerId end_timer_ = 0;
  Loop::TimerId limit_timer_ = 0;
};

}  // namespace dafs::server
