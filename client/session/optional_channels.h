// The optional channels of a session: the RDMA-read Channel, if the server needs it for direct
// writes, and the Back-control Channel, if the server takes asynchronous batches or announces
// changes. They live as long as the session; the loss of one ends it. Spec: 3.1.2.3, 6.2.5.
// And the reference channel (client/session/reference_channel.h), whose loss ends nothing else.
//
// Belongs to the thread of the session's loop.
#pragma once

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/exchange/session_context.h"
#include "client/session/back_control.h"
#include "client/session/channel.h"
#include "client/session/login.h"
#include "client/session/reference_channel.h"
#include "runtime/loop/task.h"
#include "wire/dat/dat.h"

namespace dafs::client {

class OptionalChannels {
 public:
  // Both outlive this.
  OptionalChannels(SessionContext& context, Login& login) : context_(context), login_(login) {}
  OptionalChannels(const OptionalChannels&) = delete;
  OptionalChannels& operator=(const OptionalChannels&) = delete;

  // How to reach the server. Both must outlive this. Call before Bind.
  void Use(dat::Provider& provider, dat::Domain& domain, const PrivateData& private_data);

  // Makes and binds the negotiated channels. A channel that cannot be bound is logged, and the
  // session does without it. `by_windows`: the server accesses memory by windows only, which
  // excludes an RDMA-read Channel. Returns early if the session dies.
  Task<void> Bind(bool by_windows, absl::Time deadline);

  // Makes and binds a reference channel, if the session is up and has none. `lost` runs once if the
  // channel ends before the session, but must not bind a new one.
  Task<absl::Status> BindReferences(absl::Time deadline, absl::AnyInvocable<void()> lost);
  // Null: none is bound, or it has ended. Valid until the next suspension.
  ReferenceChannel* references() const { return is_reference_bound_ ? references_.get() : nullptr; }

  // The session has ended: resumes waiters for a channel, and ends the server's access to memory
  // over the channels.
  void End(const absl::Status& why);

  bool read_channel_bound() const { return read_channel_bound_; }
  bool back_control_bound() const { return back_control_bound_; }
  // Sets the receiver of the server's directives; null: none.
  void OnDirective(BackControlHandler* handler);
  // Appends the names of the bound channels to the description of the transport.
  void Describe(std::string& transport) const;

 private:
  Task<void> BindReadChannel(absl::Time deadline);
  Task<void> BindBackControl(absl::Time deadline);
  Channel::Options ChannelOptions() const;
  wire::ConnectBindArgs BindArgs() const;
  bool connecting() const { return context_.link.state() == Link::State::kConnecting; }

  SessionContext& context_;
  Login& login_;
  dat::Provider* provider_ = nullptr;
  dat::Domain* domain_ = nullptr;
  PrivateData private_data_;
  std::unique_ptr<Channel> read_channel_;  // null: none, or binding failed; also the next
  std::unique_ptr<BackControl> back_control_;
  bool read_channel_bound_ = false;
  bool back_control_bound_ = false;
  std::unique_ptr<ReferenceChannel> references_;  // kept after its end until the next is made
  bool is_reference_bound_ = false;
};

}  // namespace dafs::client
