// A further channel of a session: a second connection in the session's domain, bound to it by
// CONNECT_BIND. As it is, it serves as RDMA-read Channel, on which the server reads the data of
// direct writes and the client sends, receives and expects nothing; client/session/back_control.h
// is the other kind. Spec: 3.1.2.3, 3.2.4.1, 6.2.5; WIRE 9.4 (CONNECT_BIND), 11.1.
//
// One thread, that of the loop. Destroying it ends the connection: the server can reach nothing by
// it afterwards. Not from within OnLost's function.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/session/private_data.h"
#include "runtime/loop.h"
#include "runtime/task.h"
#include "wire/dat/dat.h"
#include "wire/messages/messages.h"

namespace dafs::client {

class Channel : public dat::Pollable {
 public:
  struct Options {
    dat::Address address;
    std::string device;
    absl::Duration connect_timeout;  // Connect blocks for at most that long, as Session::Create
    PrivateData private_data;        // the session's, but for the type of the channel
    wire::ByteOrder order = wire::ByteOrder::kLittle;  // the session's
  };

  // An RDMA-read Channel that begins to connect. All that is borrowed outlives the channel.
  static absl::StatusOr<std::unique_ptr<Channel>> Connect(dat::Loop& loop, dat::Provider& provider,
                                                          dat::Domain& domain,
                                                          const Options& options);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Waits for the connection and binds it to the session that `args` name. Once. Any error: the
  // channel is of no use.
  dat::Task<absl::Status> Bind(wire::ConnectBindArgs args, absl::Time deadline);

  // `lost` runs, once, when a bound channel has ended by itself.
  void OnLost(absl::AnyInvocable<void(absl::Status)> lost) { lost_ = std::move(lost); }

  // Ends it now: who waits in Bind is resumed before this returns. To be destroyed next.
  void Kill(absl::Status why);

  bool Poll() override;
  dat::WaitHandle Arm() override { return endpoint_->Arm(); }

 protected:
  // What one kind of channel is like.
  struct Kind {
    wire::ChannelUse use = wire::ChannelUse::kRdmaRead;
    uint32_t sends = 1;     // of which one is CONNECT_BIND
    uint32_t receives = 1;  // its answer first
  };
  // The first exchange of a channel has room for this much each way (3.2.6.3); here all have.
  static constexpr uint32_t kMessage = wire::kFirstReceiveBytes;

  Channel(dat::Loop& loop, Kind kind) : loop_(loop), kind_(kind) {}
  absl::Status SetUp(dat::Provider& provider, dat::Domain& domain, const Options& options);

  // The answer to CONNECT_BIND is there: whether its values will do.
  virtual absl::Status Agree(const wire::ConnectBindArgs&, const wire::ConnectBindRes&) {
    return absl::OkStatus();
  }
  // A message has arrived on the bound channel, in the receive `index`. The last thing that Poll
  // does: the channel may be gone afterwards.
  virtual void OnMessage(uint64_t index, uint32_t size_bytes);
  virtual void OnSent(uint64_t) {}

  absl::Status PostReceive(uint64_t index);
  absl::Status Send(uint64_t index, size_t size_bytes);
  std::span<std::byte> SendBuffer(uint64_t index);
  std::span<const std::byte> ReceiveBuffer(uint64_t index, uint32_t size_bytes);
  // The connection is given up; OnLost follows.
  void Fail(absl::Status why);

  dat::Loop& loop_;
  const Kind kind_;
  wire::ByteOrder order_ = wire::ByteOrder::kLittle;

 private:
  absl::Status Request(const wire::ConnectBindArgs& args);
  absl::Status Answer(const wire::ConnectBindArgs& args);
  dat::Task<absl::Status> Step(absl::Time deadline);

  absl::AnyInvocable<void(absl::Status)> lost_;
  std::vector<std::byte> memory_;  // sends, then receives
  std::unique_ptr<dat::Region> region_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  dat::Pending<bool>* step_ = nullptr;  // the connection is up, or the answer is here; false: ended
  uint64_t answer_index_ = 0;
  uint32_t answer_bytes_ = 0;
  bool bound_ = false;
  bool ended_ = false;
  absl::Status why_;
};

}  // namespace dafs::client
