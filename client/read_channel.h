// The RDMA-read Channel of a session, where the server asks for one: a second connection in the
// session's domain, on which the server reads the data of direct writes. Once it is bound the
// client sends, receives and expects nothing there. Spec: 3.1.2.3.4, 3.2.4.1, 6.2.5; WIRE 9.4
// (CONNECT_BIND), 11.1.
//
// One thread, that of the loop. Destroying it ends the connection: the server can read nothing by
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
#include "client/private_data.h"
#include "wire/dat/dat.h"
#include "wire/dat/loop.h"
#include "wire/dat/task.h"
#include "wire/messages.h"

namespace dafs::client {

class ReadChannel final : public dat::Pollable {
 public:
  struct Options {
    dat::Address address;
    std::string device;
    absl::Duration connect_timeout;  // Connect blocks for at most that long, as Session::Create
    PrivateData private_data;        // the session's, but for the type of the channel
    wire::ByteOrder order = wire::ByteOrder::kLittle;  // the session's
  };

  // Begins to connect. All that is borrowed outlives the channel.
  static absl::StatusOr<std::unique_ptr<ReadChannel>> Connect(dat::Loop& loop,
                                                              dat::Provider& provider,
                                                              dat::Domain& domain,
                                                              const Options& options);
  ~ReadChannel() override;
  ReadChannel(const ReadChannel&) = delete;
  ReadChannel& operator=(const ReadChannel&) = delete;

  // Waits for the connection and binds it to its session. Once. Any error: the channel is of no
  // use.
  dat::Task<absl::Status> Bind(wire::ConnectBindArgs args, absl::Time deadline);

  // `lost` runs, once, when a bound channel has ended by itself.
  void OnLost(absl::AnyInvocable<void(absl::Status)> lost) { lost_ = std::move(lost); }

  // Ends it now: who waits in Bind is resumed before this returns. To be destroyed next.
  void Kill(absl::Status why);

  bool Poll() override;
  dat::WaitHandle Arm() override { return endpoint_->Arm(); }

 private:
  explicit ReadChannel(dat::Loop& loop) : loop_(loop) {}
  absl::Status SetUp(dat::Provider& provider, dat::Domain& domain, const Options& options);
  absl::Status Request(const wire::ConnectBindArgs& args);
  absl::Status Answer(const wire::ConnectBindArgs& args) const;
  dat::Task<absl::Status> Step(absl::Time deadline);

  dat::Loop& loop_;
  wire::ByteOrder order_ = wire::ByteOrder::kLittle;
  absl::AnyInvocable<void(absl::Status)> lost_;
  std::vector<std::byte> memory_;  // one request, one response
  std::unique_ptr<dat::Region> region_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  dat::Pending<bool>* step_ = nullptr;  // the connection is up, or the answer is here; false: ended
  uint32_t answer_bytes_ = 0;
  bool ended_ = false;
  absl::Status why_;
};

}  // namespace dafs::client
