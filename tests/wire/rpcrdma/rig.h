// Two ends of RPC-over-RDMA on one loop: a client and a server, or either of them and a scripted
// peer, which sends and records transport headers as the test says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/loop/loop.h"
#include "tests/wire/dat/dat_pair.h"
#include "wire/dat/iwarp/iwarp.h"
#include "wire/rpcrdma/connection.h"
#include "wire/rpcrdma/rpc_message.h"

namespace dafs::rpcrdma::testing {

inline constexpr uint32_t kProgram = 300000, kVersion = 4;

// The peer's end: a channel without any rules.
class Script final : public Pollable, public Channel::Receiver {
 public:
  struct Message {
    Header header;
    Bytes payload;
    size_t size = 0;  // of both
    std::optional<uint32_t> invalidated;
  };

  Script(Loop& loop, dat::PendingEndpoint& pending, bool connects) : loop_(loop) {
    channel = *Channel::Create(pending, {32, 32, 16384, 64, 16});
    EXPECT_TRUE((connects ? channel->endpoint().Connect({}) : channel->endpoint().Accept({})).ok());
    loop_.Add(this);
  }
  ~Script() override { loop_.Remove(this); }

  bool Poll() override { return !ended.has_value() && channel->Poll(*this); }
  WaitHandle Arm() override { return channel->endpoint().Arm(); }
  void OnConnected() override { connected = true; }
  void OnMessage(std::span<const std::byte> message, std::optional<uint32_t> invalidated) override {
    const DecodedHeader decoded = DecodeHeader(message);
    EXPECT_TRUE(decoded.fault == HeaderFault::kNone || decoded.fault == HeaderFault::kVersion);
    const auto payload = message.subspan(decoded.size);
    got.push_back(
        {decoded.header, Bytes(payload.begin(), payload.end()), message.size(), invalidated});
    if (answer != nullptr) answer(got.back());
  }
  void OnDisconnected(const absl::Status& why) override { ended = why; }

  void Send(const Header& header, const Bytes& payload = {},
            std::optional<uint32_t> invalidate = std::nullopt) {
    EXPECT_TRUE(channel->Send(EncodeHeader(header), payload, invalidate).ok());
    loop_.RequestPoll(this);
  }
  size_t Count(Proc proc) const {
    size_t count = 0;
    for (const Message& one : got) count += one.header.proc == proc ? 1 : 0;
    return count;
  }
  // The last message with `proc`.
  const Message* Last(Proc proc) const {
    for (size_t i = got.size(); i > 0; --i) {
      if (got[i - 1].header.proc == proc) return &got[i - 1];
    }
    return nullptr;
  }

  std::unique_ptr<Channel> channel;
  std::vector<Message> got;
  std::function<void(const Message&)> answer;
  bool connected = false;
  std::optional<absl::Status> ended;

 private:
  Loop& loop_;
};

inline Bytes Pattern(size_t size, int seed = 1) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 7 + i / 251 + static_cast<size_t>(seed)) & 0xff);
  }
  return bytes;
}

inline Bytes CallMessage(uint32_t xid, size_t argument_bytes = 0) {
  Bytes message = EncodeCall({xid, kProgram, kVersion, 0});
  Append(message, Pattern(argument_bytes));
  return message;
}

inline Bytes ReplyMessage(uint32_t xid, size_t result_bytes = 0) {
  Bytes message = EncodeReply({.xid = xid});
  Append(message, Pattern(result_bytes, 2));
  return message;
}

inline uint32_t XidOf(std::span<const std::byte> message) {
  uint32_t xid = 0;
  XdrDecoder xdr(message);
  xdr(xid);
  return xid;
}

inline Header HeaderOf(Proc proc, uint32_t xid, Direction direction = Direction::kCall) {
  Header header;
  header.xid = xid;
  header.credits = 8;
  header.proc = proc;
  header.chunks.direction = direction;
  return header;
}

class Rig : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = *Loop::Create();
    provider_ = dat::NewIwarpProvider({.reserved_port = false});
    listener_ = *provider_->Listen(dat::testing::LoopbackAddress());
    client_options_.windows_anyway = server_options_.windows_anyway = true;
    handler_ = [this](const Request& request) -> absl::StatusOr<Response> {
      requests_.push_back(request);
      calls_.emplace_back(request.message.begin(), request.message.end());
      return Response{ReplyMessage(XidOf(request.message)), {}};
    };
  }
  void TearDown() override {
    for (auto& memory : memory_) memory->region.reset();
    client_script_.reset();
    server_script_.reset();
    client_.reset();
    server_.reset();
  }

  std::unique_ptr<dat::PendingEndpoint> Dial() {
    return *provider_->Resolve(listener_->local(), "", absl::Seconds(5));
  }
  std::unique_ptr<dat::PendingEndpoint> Answered() {
    std::unique_ptr<dat::PendingEndpoint> pending;
    EXPECT_TRUE(Until([&] {
      pending = *listener_->Next();
      return pending != nullptr;
    }));
    return pending;
  }
  void Connect(Handler client_handler = nullptr) {
    client_ = *Connection::Connect(*loop_, *Dial(), client_options_, std::move(client_handler));
    server_ = *Connection::Accept(*loop_, *Answered(), server_options_,
                                  [this](const Request& request) { return handler_(request); });
  }
  // A client of ours and a server that follows a script.
  void ConnectToScript() {
    client_ = *Connection::Connect(*loop_, *Dial(), client_options_, nullptr);
    server_script_ = std::make_unique<Script>(*loop_, *Answered(), false);
  }
  // A scripted client and our server.
  void ConnectScript() {
    client_script_ = std::make_unique<Script>(*loop_, *Dial(), true);
    server_ = *Connection::Accept(*loop_, *Answered(), server_options_,
                                  [this](const Request& request) { return handler_(request); });
    ASSERT_TRUE(Until([&] { return client_script_->connected; }));
  }

  // Runs the loop until `done`. False: it did not happen within the patience of tests.
  bool Until(const std::function<bool()>& done) {
    const absl::Time deadline = Loop::Now() + dat::testing::kPatience;
    while (!done()) {
      if (Loop::Now() > deadline) return false;
      loop_->RunOnce(absl::Milliseconds(5));
    }
    return true;
  }
  absl::StatusOr<Reply> Run(Connection& connection, Call call) {
    std::optional<absl::StatusOr<Reply>> result;
    connection.Start(std::move(call),
                     [&](absl::StatusOr<Reply> reply) { result = std::move(reply); });
    if (!Until([&] { return result.has_value(); })) return absl::InternalError("the test waits");
    return *std::move(result);
  }
  absl::StatusOr<Reply> Run(Call call) { return Run(*client_, std::move(call)); }
  // The client's scripted call, and the next error or reply.
  const Script::Message* Exchange(const Header& header, const Bytes& payload, Proc proc) {
    const size_t before = client_script_->Count(proc);
    client_script_->Send(header, payload);
    if (!Until([&] {
          return client_script_->Count(proc) > before || client_script_->ended.has_value();
        })) {
      return nullptr;
    }
    return client_script_->Count(proc) > before ? client_script_->Last(proc) : nullptr;
  }
  dat::testing::Memory& NewMemory(dat::Domain& domain, const Bytes& content, dat::Access access) {
    memory_.push_back(std::make_unique<dat::testing::Memory>(
        dat::testing::NewMemory(domain, content.size(), access)));
    std::copy(content.begin(), content.end(), memory_.back()->bytes.begin());
    return *memory_.back();
  }
  // Answers of the scripted server.
  static Header ReplyTo(const Script::Message& call, uint32_t credits = 8) {
    Header reply = HeaderOf(Proc::kMessage, call.header.xid, Direction::kReply);
    reply.version = call.header.version;
    reply.credits = credits;
    reply.chunks.writes = call.header.chunks.writes;
    for (WriteChunk& chunk : reply.chunks.writes) {
      for (Segment& segment : chunk) segment.length = 0;
    }
    return reply;
  }
  static Header ErrorTo(const Script::Message& call, const ErrorBody& body) {
    Header error = HeaderOf(Proc::kError, call.header.xid);
    error.version = call.header.version;
    error.error = body;
    return error;
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<dat::Provider> provider_;
  std::unique_ptr<dat::Listener> listener_;
  Options client_options_, server_options_;
  std::function<absl::StatusOr<Response>(const Request&)> handler_;
  std::vector<Request> requests_;  // of the handler; their messages are gone
  std::vector<Bytes> calls_;
  std::unique_ptr<Connection> client_, server_;
  std::unique_ptr<Script> client_script_, server_script_;
  std::vector<std::unique_ptr<dat::testing::Memory>> memory_;
};

}  // namespace dafs::rpcrdma::testing
