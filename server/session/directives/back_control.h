// The server's half of a Back-control Channel: sends directives, receives replies. The client owns
// the credits of this direction: it grants them in CONNECT_BIND and again in each reply.
// Spec: 3.1.2.3.3, 3.2.6.1, 3.2.6.4.2, 6.6; WIRE 9.4 (CONNECT_BIND), 9.6, 11.5, R72, R74.
// Belongs to the thread of its session.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/loop/loop.h"
#include "server/store/holdings/promises/promises.h"
#include "wire/codec/codec.h"
#include "wire/messages/messages.h"
#include "wire/protocol/status.h"
#include "wire/protocol/types.h"

namespace dafs::server {

class BackControl;
class DirectiveSender;

// Refers to a channel that may have ended. Shared by the channel and those who send on it.
struct BackControlRoute {
  BackControlRoute(Loop& loop_in, BackControl* channel_in) : loop(loop_in), channel(channel_in) {}

  Loop& loop;  // of the channel; any thread may post to it
  // This and `promisee`: only on the thread of `loop`. Null: it has ended.
  BackControl* channel;
  Promisee promisee = 0;  // the client that it reaches (server/session/directives/callbacks.h)
};

class BackControl {
 public:
  // The most that this server asks for: outstanding directives, and bytes of one.
  static constexpr uint32_t kMostRequests = 8;
  static constexpr uint32_t kMostRequestBytes = 4096;
  // The least that a client may offer: room for one completion, and for a bare header.
  static constexpr uint32_t kLeastRequestBytes = 80;
  static constexpr uint32_t kLeastResponseBytes = 40;

  // Receives the status of the reply to a directive; an error if the channel ended without one. It
  // may send directives.
  using Done = absl::AnyInvocable<void(absl::StatusOr<wire::DafsStatus>)>;

  // `sender` and `loop` are those of the bound channel, and outlive this. `granted` and
  // `request_bytes` were agreed on when it was bound.
  BackControl(DirectiveSender& sender, Loop& loop, uint32_t granted, uint32_t request_bytes,
              wire::ByteOrder order, bool checksums);
  BackControl(const BackControl&) = delete;
  BackControl& operator=(const BackControl&) = delete;

  // The most bytes of one directive. Spec: 3.2.6.4.1.
  uint32_t request_bytes() const { return request_bytes_; }
  // The number of completions that fit in one directive.
  size_t most_completions() const;
  // The number of directives that one sender may have outstanding, so that others get credits.
  size_t fair_share() const { return std::max<size_t>(streams_.size() / 2, 1); }
  const std::shared_ptr<BackControlRoute>& route() const { return route_; }

  // Sends the directive, once a credit and a buffer are free. If it cannot be encoded in
  // request_bytes(), the channel ends.
  template <class Args>
  void Send(Args args, Done done);
  // Send, for a directive with a result, which is meaningful only with the status OK.
  template <class Args>
  void Ask(
      Args args,
      absl::AnyInvocable<void(const absl::StatusOr<wire::DafsStatus>&, const wire::ResOf<Args>&)>
          done);
  // Sends it now. Returns false if no credit or no buffer is free; Batches::Report is called when
  // one may be.
  template <class Args>
  bool TrySend(const Args& args, Done done);

  // Returns true if the message that arrived on the channel is a reply to a directive. Other
  // messages are requests on the channel itself.
  bool IsResponse(std::span<const std::byte> message) const;
  // Processes such a reply. Returns what is to be called after the buffer of the reply can receive
  // another one. kDataLoss: it matches no directive, and the caller must end the channel.
  absl::StatusOr<absl::AnyInvocable<void()>> OnResponse(std::span<const std::byte> message);
  // A buffer or credit is free: sends what waits for one.
  void SendWaiting();
  // The channel has ended. All directives are over.
  void End();

 private:
  // Decodes the result in a reply. Null: there is none.
  using Decode = absl::AnyInvocable<absl::Status(std::span<const std::byte>, wire::ByteOrder,
                                                 wire::DafsStatus)>;
  struct Stream {
    bool busy = false;
    uint16_t seq_number = 0;
    Done done;
    Decode decode;
  };
  // Writes a directive with this header, and returns its size.
  using Encode = absl::StatusOr<size_t>(const wire::RequestHeader&, wire::ByteOrder,
                                        std::span<std::byte>, const wire::EncodeOptions&);
  using OwnedEncode = absl::AnyInvocable<absl::StatusOr<size_t>(
      const wire::RequestHeader&, wire::ByteOrder, std::span<std::byte>, const wire::EncodeOptions&)
                                             const>;
  struct Waiting {
    OwnedEncode encode;
    Done done;
    Decode decode;
  };
  // Leaves `done` and `decode` alone if it returns false.
  bool SendNow(absl::FunctionRef<Encode> encode, Done& done, Decode& decode);
  void Enqueue(OwnedEncode encode, Done done, Decode decode);

  DirectiveSender& sender_;
  const uint32_t request_bytes_;
  const wire::ByteOrder order_;
  const bool checksums_;
  const std::shared_ptr<BackControlRoute> route_;
  std::vector<Stream> streams_;
  uint32_t nreq_;  // may exceed the number of streams_
  uint32_t outstanding_ = 0;
  std::deque<Waiting> waiting_;
  bool ended_ = false;
};

template <class Args>
void BackControl::Send(Args args, Done done) {
  Enqueue(
      [args = std::move(args)](const wire::RequestHeader& header, wire::ByteOrder order,
                               std::span<std::byte> out, const wire::EncodeOptions& options) {
        return wire::EncodeRequest(header, args, order, out, options);
      },
      std::move(done), nullptr);
}

template <class Args>
void BackControl::Ask(
    Args args,
    absl::AnyInvocable<void(const absl::StatusOr<wire::DafsStatus>&, const wire::ResOf<Args>&)>
        done) {
  const auto res = std::make_shared<wire::ResOf<Args>>();  // shared by the two functions
  Enqueue(
      [args = std::move(args)](const wire::RequestHeader& header, wire::ByteOrder order,
                               std::span<std::byte> out, const wire::EncodeOptions& options) {
        return wire::EncodeRequest(header, args, order, out, options);
      },
      [res, done = std::move(done)](absl::StatusOr<wire::DafsStatus> status) mutable {
        done(status, *res);
      },
      [res](std::span<const std::byte> message, wire::ByteOrder order, wire::DafsStatus status) {
        return wire::DecodeRes(message, order, status, *res);
      });
}

template <class Args>
bool BackControl::TrySend(const Args& args, Done done) {
  if (!waiting_.empty()) return false;
  Decode none;
  return SendNow(
      [&args](const wire::RequestHeader& header, wire::ByteOrder order, std::span<std::byte> out,
              const wire::EncodeOptions& options) {
        return wire::EncodeRequest(header, args, order, out, options);
      },
      done, none);
}

}  // namespace dafs::server
