// A client that sends what a test specifies: whole messages byte by byte, or requests of the codec.
// It enforces none of a client's rules itself. Single-threaded. Every call blocks, for at most
// kPatience.
#pragma once

#include <poll.h>

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/loop/loop.h"
#include "wire/codec/codec.h"
#include "wire/dat/dat.h"
#include "wire/protocol/status.h"

namespace dafs::server {

// Long enough for a loaded machine. A test that waits this long has failed.
inline constexpr absl::Duration kPatience = absl::Seconds(60);
inline constexpr size_t kMessage = 72 << 10;

using Bytes = std::vector<std::byte>;

// A response: its header, its bytes, and its result.
template <class Res>
struct Reply {
  bool closed = false;  // the connection ended without a response
  wire::ResponseHeader header;
  Bytes message;
  Res res;
  wire::DafsStatus status() const { return header.status; }
  // The status, "DAFS_STATUS_OK" for example, or "closed". For EXPECT_EQ.
  std::string name() const { return closed ? "closed" : std::string(wire::Name(header.status)); }
};

// Registered memory of the client, for direct transfers.
struct DirectMemory {
  Bytes bytes;
  std::unique_ptr<dat::Region> region;
  wire::DirectOpBuffer At(size_t offset, size_t size) const {
    return {.buffer_address = region->target_address() + offset,
            .buffer_byte_count = static_cast<uint32_t>(size),
            .buffer_handle = region->context()};
  }
};

class RawClient {
 public:
  static std::unique_ptr<RawClient> Connect(dat::Provider& provider, const dat::Address& server,
                                            uint32_t receives = 80,
                                            std::span<const std::byte> private_data = {},
                                            dat::Domain* of_session = nullptr) {
    std::unique_ptr<RawClient> client(new RawClient);
    auto pending = provider.Resolve(server, "", kPatience);
    if (!pending.ok()) return nullptr;
    if (of_session == nullptr) {
      auto domain = (*pending)->NewDomain();
      if (!domain.ok()) return nullptr;
      client->own_domain_ = *std::move(domain);
    }
    client->domain_ = of_session == nullptr ? client->own_domain_.get() : of_session;
    dat::EndpointOptions options;
    options.max_receives = receives;
    options.max_sends = 80;
    auto endpoint = (*pending)->CreateEndpoint(*client->domain_, options);
    if (!endpoint.ok()) return nullptr;
    client->endpoint_ = *std::move(endpoint);
    client->receive_ = client->NewMemory(kMessage * receives, dat::Access::kLocal);
    client->send_ = client->NewMemory(kMessage, dat::Access::kLocal);
    for (uint32_t i = 0; i < receives; ++i) {
      if (!client->PostReceive(i)) return nullptr;
    }
    if (!client->endpoint_->Connect(private_data).ok()) return nullptr;
    if (!client->Until([&] { return client->connected_; })) return nullptr;
    return client;
  }

  ~RawClient() { endpoint_.reset(); }

  DirectMemory NewMemory(size_t size, dat::Access access) {
    DirectMemory memory;
    memory.bytes.resize(size);
    auto region = domain_->Register(memory.bytes, access);
    if (region.ok()) memory.region = *std::move(region);
    return memory;
  }

  // Sends `message` unchanged. Waits until the transport has accepted it.
  bool Send(std::span<const std::byte> message) {
    std::memcpy(send_.bytes.data(), message.data(), message.size());
    dat::Segment segment{send_.bytes.data(), static_cast<uint32_t>(message.size()),
                         send_.region.get()};
    sent_ = false;
    if (!endpoint_->PostSend(0, {&segment, 1}, {}).ok()) return false;
    return Until([&] { return sent_; });
  }

  // Returns the next message, or nothing if the connection has ended.
  std::optional<Bytes> Receive() {
    Until([&] { return !messages_.empty() || closed_; });
    if (messages_.empty()) return std::nullopt;
    Bytes message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  bool AwaitClosed() {
    Until([&] { return closed_; });
    return closed_;
  }
  bool closed() const { return closed_; }
  // Ends the connection abruptly. Afterwards the object may only be destroyed.
  void Vanish() { endpoint_.reset(); }
  void Close() {
    endpoint_->Abort(absl::CancelledError("test"));
    PollOnce();  // verbs ends the connection at the next poll
  }
  dat::Endpoint& endpoint() { return *endpoint_; }
  dat::Domain& domain() { return *domain_; }
  // Polls once, without waiting.
  void Poll() { PollOnce(); }
  // Whether Receive would return without waiting.
  bool ready() const { return closed_ || !messages_.empty(); }

  // Encodes a request. `header` gives flags, stream, credentials. Adds a checksum if `checksums` is
  // set.
  template <class Args>
  Bytes Encode(const wire::RequestHeader& header, const Args& args,
               std::span<const std::byte> data = {}) {
    Bytes out(kMessage);
    wire::EncodeOptions options;
    options.checksum = checksums && Args::kProc != wire::Proc::kClientConnect &&
                       Args::kProc != wire::Proc::kClientConnectAuth;
    options.inline_data.data = data;
    auto size = wire::EncodeRequest(header, args, order, out, options);
    out.resize(size.ok() ? *size : 0);
    return out;
  }

  // Returns the header of the next request on stream `stream`.
  wire::RequestHeader Header(uint16_t stream = 0, uint16_t chain_flags = 0) {
    wire::RequestHeader header;
    header.desired_nreq = desired_nreq;
    header.chain_flags = chain_flags;
    header.stream_id = stream;
    if (stream >= sequence_.size()) sequence_.resize(stream + 1u, 0x0100);
    header.seq_number = sequence_[stream]++;
    header.cred_handle = cred_handle;
    std::memcpy(header.analyzer.bytes.data(), &++analyzer_, sizeof(analyzer_));
    return header;
  }

  template <class Args>
  bool SendRequest(const Args& args, uint16_t stream = 0, uint16_t chain_flags = 0,
                   std::span<const std::byte> data = {}) {
    return Send(Encode(Header(stream, chain_flags), args, data));
  }

  // Returns the next response, decoded as that to a request with `Args`.
  template <class Args>
  Reply<wire::ResOf<Args>> ReceiveReply(wire::OpenClaimType claim = wire::OpenClaimType::kNull) {
    Reply<wire::ResOf<Args>> reply;
    std::optional<Bytes> message = Receive();
    if (!message) {
      reply.closed = true;
      return reply;
    }
    auto header = wire::DecodeResponseHeader(*message, order);
    if (!header.ok() ||
        !wire::DecodeRes(*message, order, header->header.status, reply.res, claim).ok()) {
      reply.closed = true;  // a client closes the connection after such a response
      return reply;
    }
    reply.header = header->header;
    reply.message = *std::move(message);
    return reply;
  }

  template <class Args>
  Reply<wire::ResOf<Args>> Call(const Args& args, std::span<const std::byte> data = {}) {
    if (!SendRequest(args, 0, 0, data)) {
      Reply<wire::ResOf<Args>> reply;
      reply.closed = true;
      return reply;
    }
    wire::OpenClaimType claim = wire::OpenClaimType::kNull;
    if constexpr (Args::kProc == wire::Proc::kOpen) claim = args.claim_type;
    return ReceiveReply<Args>(claim);
  }

  wire::ByteOrder order = wire::ByteOrder::kLittle;
  bool checksums = false;
  uint16_t desired_nreq = 0;
  wire::CredHandle cred_handle;

 private:
  RawClient() = default;

  bool PostReceive(uint64_t slot) {
    dat::Segment into{receive_.bytes.data() + slot * kMessage, kMessage, receive_.region.get()};
    return endpoint_->PostReceive(slot, into).ok();
  }

  bool PollOnce() {
    dat::Completion completions[16];
    const size_t count = endpoint_->Poll(completions);
    for (size_t i = 0; i < count; ++i) {
      const dat::Completion& c = completions[i];
      switch (c.event) {
        case dat::Event::kConnected:
          connected_ = true;
          break;
        case dat::Event::kSend:
          sent_ = true;
          break;
        case dat::Event::kDisconnected:
          closed_ = true;
          break;
        case dat::Event::kReceive:
          if (c.status.ok()) {
            const std::byte* at = receive_.bytes.data() + c.cookie * kMessage;
            messages_.emplace_back(at, at + c.size_bytes);
            PostReceive(c.cookie);
          }
          break;
        default:
          break;
      }
    }
    return count > 0;
  }

  template <class Done>
  bool Until(Done done) {
    const absl::Time deadline = Loop::Now() + kPatience;
    while (!done()) {
      if (PollOnce()) continue;
      if (closed_ || Loop::Now() > deadline) return done();
      WaitHandle handle = endpoint_->Arm();
      if (handle.fd < 0) continue;
      pollfd wait{handle.fd, static_cast<short>(handle.events), 0};
      poll(&wait, 1, 1000);
    }
    return true;
  }

  std::unique_ptr<dat::Domain> own_domain_;
  dat::Domain* domain_ = nullptr;  // own_domain_, or that of the session it will join
  DirectMemory receive_;
  DirectMemory send_;
  std::unique_ptr<dat::Endpoint> endpoint_;
  std::deque<Bytes> messages_;
  std::vector<uint16_t> sequence_;
  uint64_t analyzer_ = 0;
  bool connected_ = false;
  bool sent_ = false;
  bool closed_ = false;
};

}  // namespace dafs::server
