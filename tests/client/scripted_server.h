// A server in memory under the control of a test: correct by default, and wrong where a test
// examines how the client reacts. It is a DAT provider, runs on the test's thread within the
// client's loop, and records each violation of flow control or chaining that it sees in
// `violations`.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "wire/codec/codec.h"
#include "wire/dat/dat.h"

namespace dafs::client::testing {

struct Request {
  wire::RequestHeader header;
  wire::ByteOrder order = wire::ByteOrder::kLittle;
  std::vector<std::byte> message;

  template <class Args>
  Args Decode() const {
    Args args;
    wire::DecodeArgs(message, order, args);
    return args;
  }
};

class ScriptedServer;
class ScriptedDomain;

// The client's endpoint of a connection; the server is at its other end.
class ScriptedConnection final : public dat::Endpoint {
 public:
  ScriptedConnection(ScriptedServer* server, ScriptedDomain* domain);
  ~ScriptedConnection() override;

  // For scripts. Answers `request` with `res`, or with an error as 9.3 defines for `status`.
  template <class Res>
  void Answer(const Request& request, const Res& res, wire::DafsStatus status = {},
              const wire::EncodeOptions& options = {}) {
    std::vector<std::byte> bytes = Encoded(request, res, status, options);
    if (!bytes.empty()) Send(std::move(bytes));
  }
  template <class Res>
  std::vector<std::byte> Encoded(const Request& request, const Res& res, wire::DafsStatus status,
                                 const wire::EncodeOptions& options) {
    std::vector<std::byte> bytes(65536);
    wire::EncodeOptions encode = options;
    encode.checksum = Checksums(request);
    auto size = wire::EncodeResponse(HeaderFor(request, status), res, request.order, bytes, encode);
    if (!size.ok()) {
      Refuse(request, wire::DafsFromStatus(size.status()));
      return {};
    }
    bytes.resize(*size);
    return bytes;
  }
  // Sends `message`, the stored response, as the reply to a FETCH_RESPONSE.
  void AnswerFetch(const Request& request, wire::DafsStatus status, std::vector<std::byte> message);
  void Refuse(const Request& request, wire::DafsStatus status);
  // Sends a directive, on a connection that is `bound`.
  template <class Args>
  void Direct(const Args& args, uint16_t stream_id = 0) {
    wire::RequestHeader header;
    header.stream_id = stream_id;
    header.analyzer = wire::OpaqueFromUint64<wire::Analyzer>(stream_id);
    std::vector<std::byte> bytes(4096);
    auto size = wire::EncodeRequest(header, args, order, bytes);
    bytes.resize(size.ok() ? *size : 0);
    Send(std::move(bytes));
  }
  void Send(std::vector<std::byte> bytes);  // arbitrary bytes
  void Close(absl::Status why);             // breaks the connection; messages in transit are lost
  void CloseAfterAnswers();                 // breaks it after the replies sent so far arrive
  wire::ResponseHeader HeaderFor(const Request& request, wire::DafsStatus status);
  bool RdmaWrite(const wire::DirectOpBuffer& to, std::span<const std::byte> data);
  std::vector<std::byte> RdmaRead(const wire::DirectOpBuffer& from);

  absl::Status Connect(std::span<const std::byte> private_data) override;
  absl::Status Accept(std::span<const std::byte>) override;
  absl::Status PostReceive(uint64_t cookie, dat::Segment into) override;
  absl::Status PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                        const SendOptions& options) override;
  absl::Status PostRdmaWrite(uint64_t, std::span<const dat::Segment>, dat::RemoteBuffer,
                             bool) override;
  absl::Status PostRdmaRead(uint64_t, std::span<const dat::Segment>, dat::RemoteBuffer) override;
  absl::StatusOr<dat::RemoteBuffer> PostBind(const dat::Segment& part, dat::Access access) override;
  absl::Status PostInvalidate(uint64_t cookie, uint32_t context) override;
  size_t Poll(std::span<dat::Completion> out) override;
  WaitHandle Arm() override;
  void Disconnect() override { Close(absl::OkStatus()); }
  void Abort(absl::Status why) override { Close(std::move(why)); }
  std::span<const std::byte> peer_private_data() const override { return {}; }
  const dat::Address& peer() const override { return peer_; }
  uint32_t max_segments() const override { return 4; }
  std::string description() const override { return "scripted"; }

  bool checksums = false;  // negotiated
  uint64_t session_id = 0;
  bool connected_session = false;
  std::vector<std::byte> private_data;
  std::deque<Request> held;
  size_t messages = 0;               // that the client has sent
  size_t receives_posted = 0;        // by the client, so far
  std::set<uint32_t> receive_sizes;  // of these
  bool closed = false;
  bool bound = false;  // by CONNECT_BIND: a Back-control Channel
  wire::ByteOrder order = wire::ByteOrder::kLittle;

  // The state of the chain that is being executed.
  bool chain_forw = false;
  bool chain_broken = false;
  wire::FileHandle current;
  wire::StateId current_state_id;

 private:
  friend class ScriptedServer;
  bool Checksums(const Request& request) const;
  void Receive(std::vector<std::byte> message);
  void CheckFlow(const Request& request);
  bool Break();  // counts an operation; returns true if this one fails

  ScriptedServer* server_;
  ScriptedDomain* domain_;
  dat::Address peer_;
  int fd_;
  std::deque<std::pair<uint64_t, dat::Segment>> receives_;
  std::deque<std::vector<std::byte>> inbox_;
  std::deque<dat::Completion> completions_;
  bool reported_end_ = false;
  std::map<uint32_t, std::unique_ptr<dat::Region>> windows_;  // by context
  std::map<uint16_t, uint16_t> outstanding_;                  // stream -> seq_number
  std::map<uint16_t, uint16_t> last_seq_;
  uint32_t nreq_ = 1;
  bool last_forw_ = false;
};

class ScriptedServer final : public dat::Provider {
 public:
  ScriptedServer() = default;

  // Sees each request first. Returns true if it handled the request. By default it handles none.
  std::function<bool(ScriptedConnection&, const Request&)> script;
  // The spec_cond of each reply; null: 0.
  std::function<uint16_t(const Request&)> spec_cond;
  // Sends the reply of a correct server.
  void Serve(ScriptedConnection& connection, const Request& request);
  // Sends the replies to the requests in `held`, in order.
  void ServeHeld(ScriptedConnection& connection);

  // The limits that the server grants, and the Nreq target in each reply.
  uint32_t max_requests = 16;
  uint16_t target_nreq = 16;
  bool trusted = true;
  bool hold = false;           // requests of established sessions wait in `held`
  int refuse_connections = 0;  // the number of next attempts that fail
  uint64_t write_verifier = 1;
  bool keeps_responses = true;   // agrees to a Response Cache (5.2)
  bool keeps_unanswered = true;  // recognises a lost session even if it kept no response of it
  absl::Status windows = absl::UnimplementedError("scripted: no windows");  // Domain::windows
  size_t windows_bound = 0;                                                 // so far
  size_t windows_ended = 0;                         // invalidated by their owner so far
  bool open_handle = true;                          // has the private procedure OPEN_HANDLE
  uint64_t extensions = 0;                          // that it grants
  std::optional<wire::ServerIdentityRes> identity;  // nullopt: NOTSUPP
  // In place of an open that wants one. An OPEN for writing upgrades a read delegation; kNone ends
  // it.
  wire::OpenDelegationType delegates = wire::OpenDelegationType::kNone;
  bool back_control = false;   // agrees to a Back-control Channel
  wire::PromisesRes promises;  // the reply to PROMISES; granted 0: NOTSUPP
  // The replies of clients on Back-control Channels, in order of arrival.
  std::vector<wire::ResponseHeader> directive_answers;

  // Simulates a restart: ends connections, forgets opens, changes state ids and client_id. The
  // Response Cache survives unless `with_cache` is false.
  void Restart(bool with_cache = true);
  uint64_t instance = 7;  // in client_id and state ids
  // The opens that the server has: state id -> owner. An owner has at most one open of a file.
  std::map<uint64_t, std::string> opens;
  // The last response to a change for each (session, stream), until it is discarded.
  struct Kept {
    uint16_t seq_number = 0;
    wire::Proc proc{};
    wire::DafsStatus status{};
    std::vector<std::byte> message;
  };
  std::map<std::pair<uint64_t, uint16_t>, Kept> responses;
  // The stable data of each file, and its unstable writes.
  std::map<std::string, std::vector<std::byte>> written;
  std::map<std::string, std::vector<std::pair<uint64_t, std::vector<std::byte>>>> unstable;
  std::map<std::string, std::vector<std::byte>> appended;  // appended to each file, kept separately
  uint32_t credentials = 0;  // the number registered so far, also the number in the last handle
  uint32_t released = 0;

  // The 1-based number of the transport operation that breaks the connection; 0: none.
  int break_at = 0;
  int operations = 0;

  // The record of the requests that arrived.
  struct Seen {
    wire::Proc proc;
    uint16_t chain_flags;
    wire::CredHandle cred;
    uint16_t desired_nreq;
    wire::ByteOrder order;
  };
  std::vector<Seen> log;
  std::map<wire::Proc, int> executed;
  std::vector<std::string> violations;
  std::vector<ScriptedConnection*> connections;  // the live ones
  int connections_made = 0;
  int domains_made = 0;
  int idle_arms = 0;  // the client armed a connection that had nothing for it, to sleep
  uint32_t most_outstanding = 0;

  int Count(wire::Proc proc) const {
    int count = 0;
    for (const Seen& seen : log) count += seen.proc == proc ? 1 : 0;
    return count;
  }
  ScriptedConnection& only() { return *connections.back(); }
  // The live Back-control Channel; null: none.
  ScriptedConnection* BackControl() {
    for (ScriptedConnection* connection : connections) {
      if (connection->bound) return connection;
    }
    return nullptr;
  }

  const char* name() const override { return "scripted"; }
  absl::StatusOr<std::unique_ptr<dat::Listener>> Listen(const dat::Address&) override {
    return absl::UnimplementedError("scripted");
  }
  absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> Resolve(const dat::Address& peer,
                                                                const std::string&,
                                                                absl::Duration) override;

 private:
  template <wire::Proc proc>
  void Execute(ScriptedConnection& connection, const Request& request);
};

// The attributes in the replies of the default server.
wire::FileAttributes ScriptedAttributes(uint64_t bits);
// Returns byte `i` of every file.
inline std::byte ScriptedByte(uint64_t i) { return static_cast<std::byte>(i * 7 + i / 253); }

}  // namespace dafs::client::testing
