// The posted receives of one channel, each with the request that arrives in it.
// Spec: 3.2.3.1 (a pre-allocated buffer per request), 3.2.6.3.
// Belongs to the session's thread. Allocates and registers memory only when a receive is added.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/session/call.h"
#include "server/session/connection/connection.h"
#include "server/session/transfer/message_buffers.h"

namespace dafs::server {

class Session;

// Its address is the cookie of the post. The request lasts until the receive is posted again.
struct Receive : Call {
  using Call::Call;
  std::unique_ptr<MessageBuffer> buffer;
  size_t index = 0;         // in Receives
  bool of_connect = false;  // of the connect exchange; dropped once the session is open
};

class Receives {
 public:
  // `session` is what the requests refer to. Both are borrowed and outlive this.
  Receives(Connection& connection, Session& session) : connection_(connection), session_(session) {}

  // Adds a receive for messages of up to `size_bytes`, and posts it.
  absl::Status Add(size_t size_bytes, bool of_connect = false);
  // Posts it again: its request is done.
  absl::Status Post(Receive& receive);
  // Removes it. Its request may be used until FreeDropped.
  void Drop(Receive& receive);
  // Call when no request is on the stack.
  void FreeDropped() { dropped_.clear(); }
  size_t size() const { return posted_.size(); }  // the dropped excluded

 private:
  Connection& connection_;
  Session& session_;
  std::vector<std::unique_ptr<Receive>> posted_;
  std::vector<std::unique_ptr<Receive>> dropped_;
};

}  // namespace dafs::server
