// An additional channel of a session: a second connection in the session's domain, bound to the
// session by CONNECT_BIND. This class is an RDMA-read Channel: the server reads the data of direct
// writes over it, and the client sends nothing and expects no message. Its subclasses are
// client/session/back_control.h and reference_channel.h.
// Spec: 3.1.2.3, 3.2.4.1, 6.2.5; WIRE 9.4 (CONNECT_BIND), 11.1.
//
// Belongs to the thread of its loop. The destructor ends the connection: the server cannot access
// memory over it afterwards. Do not destroy it within the function given to OnLost.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/session/login.h"
#include "client/session/private_data.h"
#include "runtime/loop/loop.h"
#include "runtime/loop/task.h"
#include "wire/dat/dat.h"
#include "wire/messages/messages.h"

namespace dafs::client {

class Channel : public Pollable {
 public:
  struct Options {
    dat::Address address;
    std::string device;
    absl::Duration connect_timeout;  // Connect blocks at most this long, like Session::Create
    PrivateData private_data;        // the session's, except for the channel type
    wire::ByteOrder order = wire::ByteOrder::kLittle;  // the session's
    Login* login = nullptr;  // makes the tokens of CONNECT_BIND; null: it has none
  };

  // Returns an RDMA-read Channel that starts to connect. The references must outlive it.
  static absl::StatusOr<std::unique_ptr<Channel>> Connect(Loop& loop, dat::Provider& provider,
                                                          dat::Domain& domain,
                                                          const Options& options);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits for the connection and binds it to the session that `args` name. Call once. After an
  // error the channel is unusable.
  Task<absl::Status> Bind(wire::ConnectBindArgs args, absl::Time deadline);

  // `lost` runs once, when a bound channel ends by itself.
  void OnLost(absl::AnyInvocable<void(absl::Status)> lost) { lost_ = std::move(lost); }

  // Ends the channel now, and resumes a waiter in Bind before it returns. Then only the destructor
  // may follow.
  void Kill(absl::Status why);

  bool Poll() override;
  WaitHandle Arm() override { return endpoint_->Arm(); }

 protected:
  // The properties of a kind of channel.
  struct Kind {
    wire::ChannelUse use = wire::ChannelUse::kRdmaRead;
    uint32_t sends = 1;     // including CONNECT_BIND
    uint32_t receives = 1;  // including its response
    uint32_t reads = 0;     // RDMA reads of this side
  };
  // The buffer size of a channel's first exchange, in each direction (3.2.6.3). Here all buffers
  // have it.
  static constexpr uint32_t kMessage = wire::kFirstReceiveBytes;

  Channel(Loop& loop, Kind kind) : loop_(loop), kind_(kind) {}
  absl::Status SetUp(dat::Provider& provider, dat::Domain& domain, const Options& options);

  // Checks the values in the response to CONNECT_BIND.
  virtual absl::Status Agree(const wire::ConnectBindArgs&, const wire::ConnectBindRes&) {
    return absl::OkStatus();
  }
  // A message arrived on the bound channel, in receive `index`. Poll touches nothing after this:
  // the channel may be destroyed.
  virtual void OnMessage(uint64_t index, uint32_t size_bytes);
  virtual void OnSent(uint64_t) {}
  // The RDMA read with this cookie is done, or has failed because the connection ends. As
  // OnMessage.
  virtual void OnRead(uint64_t, bool /*came*/) {}
  // The bound channel has ended by itself; OnLost follows. Must not destroy the channel.
  virtual void OnEnded() {}

  absl::Status PostReceive(uint64_t index);
  absl::Status Send(uint64_t index, size_t size_bytes);
  // Posts an RDMA read. If that fails, the channel ends.
  void PostRead(uint64_t cookie, dat::Segment into, dat::RemoteBuffer from);
  bool up() const { return bound_ && !ended_; }
  std::span<std::byte> SendBuffer(uint64_t index);
  std::span<const std::byte> ReceiveBuffer(uint64_t index, uint32_t size_bytes);
  // Aborts the connection; OnLost follows.
  void Fail(absl::Status why);

  Loop& loop_;
  const Kind kind_;
  wire::ByteOrder order_ = wire::ByteOrder::kLittle;

 private:
  absl::Status Request(const wire::ConnectBindArgs& args);
  // Sets `token`, if not null, to the server's.
  absl::Status Answer(const wire::ConnectBindArgs& args, std::string* token);
  Task<absl::Status> Step(absl::Time deadline);

  absl::AnyInvocable<void(absl::Status)> lost_;
  std::vector<std::byte> memory_;  // sends, then receives
  std::unique_ptr<dat::Region> region_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  Login* login_ = nullptr;
  Pending<bool>* step_ = nullptr;  // set when connected or answered; false: ended
  uint64_t answer_index_ = 0;
  uint32_t answer_bytes_ = 0;
  bool bound_ = false;
  bool ended_ = false;
  absl::Status why_;
};

}  // namespace dafs::client
