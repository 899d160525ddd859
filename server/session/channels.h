// The optional channels of a session, or the session of a channel.
// Spec: 3.1.2.3, 6.2.5; WIRE 9.4 (CONNECT_BIND), 11.3, R61.
//
// A channel begins like every connection, as a Session without a request. CONNECT_BIND binds it to
// another session, on the same worker (Acceptor::WorkerFor). From then on its completions count for
// that session, and neither outlives the other. A reference channel is the exception: its end does
// not end the session. It is private (wire/messages/references.h), and the client alone uses it,
// for RDMA reads of the exported cache.
//
// Belongs to the worker's thread; nothing blocks. The pointers returned are valid until the next
// suspension.
#pragma once

#include <memory>
#include <utility>

#include "server/session/directives/back_control.h"
#include "server/session/exported_regions.h"
#include "server/session/receives.h"
#include "wire/messages/session.h"
#include "wire/protocol/status.h"

namespace dafs::server {

class Session;

class Channels {
 public:
  // `exports`: the regions of a connection that can only become a reference channel; null: one that
  // cannot.
  Channels(Session& self, std::unique_ptr<ExportedRegions> exports)
      : self_(self), exports_(std::move(exports)) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  // A session's channel for RDMA reads of client memory. This is the RDMA-read Channel if one was
  // agreed on, otherwise the session itself. Null: the agreed channel is not bound.
  Session* ForReads() const;
  // A session's Back-control Channel; null if none is bound.
  Session* back() const { return back_; }
  // The regions of a session's reference channel; null: none is bound.
  ExportedRegions* exports() const;
  // Returns true if a channel is bound to this session.
  bool any() const { return read_ != nullptr || back_ != nullptr || references_ != nullptr; }
  // Whether this connection can only become a reference channel.
  bool is_for_references() const { return exports_ != nullptr; }

  // The session that this channel is bound to. Null before CONNECT_BIND, and for a session.
  Session* owner() const { return owner_; }
  Session& OwnerOrSelf() const { return owner_ != nullptr ? *owner_ : self_; }
  // Null unless this is a bound Back-control Channel.
  BackControl* back_control() const { return back_control_.get(); }
  const char* name() const;  // of a bound channel, for logs
  // The values agreed on when this channel was bound: sizes and number of requests. The
  // authentication is unset.
  const wire::ConnectBindRes& agreed() const { return agreed_; }

  // Returns kOk if CONNECT_BIND with `args` may bind this connection to `owner`, or repeats that.
  wire::DafsStatus MayBind(const wire::ConnectBindArgs& args, Session& owner) const;
  // Binds it. Ends the connection if the buffers of a Back-control Channel cannot be posted.
  void Bind(const wire::ConnectBindArgs& args, Session& owner);
  // This connection has ended: ends the connections bound to it, or the session it is bound to.
  void Unbind();

  // Requires back_control(). Returns true if the message that arrived in `receive` is a reply to a
  // directive; the reply has then been processed.
  bool TakeReply(Receive& receive, std::span<const std::byte> message);
  // Requires back_control(): it has a further buffer or credit for directives.
  void Report() const;

 private:
  Session& self_;
  Session* owner_ = nullptr;
  wire::ChannelUse use_ = wire::ChannelUse::kRdmaRead;  // once bound
  wire::ConnectBindRes agreed_;
  std::unique_ptr<BackControl> back_control_;
  Session*& BoundFor(wire::ChannelUse use);

  Session* read_ = nullptr;
  Session* back_ = nullptr;
  Session* references_ = nullptr;
  const std::unique_ptr<ExportedRegions> exports_;
};

}  // namespace dafs::server
