#include "tests/client/scripted_server.h"

#include <algorithm>
#include <cstring>

#include "wire/codec/checksum.h"
#include "wire/codec/direct.h"
#include "wire/messages/chain.h"

namespace dafs::client::testing {

using wire::DafsStatus;
using wire::Proc;

// ---- Memory ----------------------------------------------------------------------------------

class ScriptedRegion;

class ScriptedDomain final : public dat::Domain {
 public:
  absl::StatusOr<std::unique_ptr<dat::Region>> Register(std::span<std::byte> memory,
                                                        dat::Access access) override;
  explicit ScriptedDomain(absl::Status windows) : windows_(std::move(windows)) {}
  absl::Status windows() const override { return windows_; }
  std::map<uint32_t, ScriptedRegion*> regions;
  uint32_t next_context = 0x100;

 private:
  absl::Status windows_;
};

class ScriptedRegion final : public dat::Region {
 public:
  ScriptedRegion(ScriptedDomain* domain, std::span<std::byte> memory, dat::Access access,
                 uint32_t context)
      : Region(memory, access, context, 0x10000), domain_(domain) {
    domain_->regions[context] = this;
  }
  ~ScriptedRegion() override { domain_->regions.erase(context()); }

 private:
  ScriptedDomain* domain_;
};

absl::StatusOr<std::unique_ptr<dat::Region>> ScriptedDomain::Register(std::span<std::byte> memory,
                                                                      dat::Access access) {
  return std::make_unique<ScriptedRegion>(this, memory, access, next_context++);
}

namespace {

std::byte* Reach(ScriptedDomain& domain, const wire::DirectOpBuffer& buffer, size_t size,
                 dat::Access needed) {
  auto it = domain.regions.find(buffer.buffer_handle);
  if (it == domain.regions.end()) return nullptr;
  const dat::Region& region = *it->second;
  if ((static_cast<int>(region.access()) & static_cast<int>(needed)) == 0) return nullptr;
  uint64_t offset = buffer.buffer_address - region.target_address();
  if (offset > region.memory().size() || size > region.memory().size() - offset) return nullptr;
  return region.memory().data() + offset;
}

class ScriptedPending final : public dat::PendingEndpoint {
 public:
  ScriptedPending(ScriptedServer* server, dat::Address peer) : server_(server), peer_(peer) {}
  absl::StatusOr<std::unique_ptr<dat::Domain>> NewDomain() override {
    ++server_->domains_made;
    return std::make_unique<ScriptedDomain>(server_->windows);
  }
  bool Fits(const dat::Domain&) const override { return true; }
  absl::StatusOr<std::unique_ptr<dat::Endpoint>> CreateEndpoint(
      dat::Domain& domain, const dat::EndpointOptions&) override {
    return std::make_unique<ScriptedConnection>(server_, &static_cast<ScriptedDomain&>(domain));
  }
  std::span<const std::byte> peer_private_data() const override { return {}; }
  const dat::Address& peer() const override { return peer_; }

 private:
  ScriptedServer* server_;
  dat::Address peer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<dat::PendingEndpoint>> ScriptedServer::Resolve(
    const dat::Address& peer, const std::string&, absl::Duration) {
  if (refuse_connections > 0) {
    --refuse_connections;
    return absl::UnavailableError("scripted refusal");
  }
  return std::make_unique<ScriptedPending>(this, peer);
}

// ---- The endpoint ----------------------------------------------------------------------------

ScriptedConnection::ScriptedConnection(ScriptedServer* server, ScriptedDomain* domain)
    : server_(server), domain_(domain), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  server_->connections.push_back(this);
  ++server_->connections_made;
}

ScriptedConnection::~ScriptedConnection() {
  windows_.clear();
  std::erase(server_->connections, this);
  close(fd_);
}

bool ScriptedConnection::Break() {
  if (++server_->operations != server_->break_at) return false;
  Close(absl::UnavailableError("broken by the test"));
  return true;
}

absl::Status ScriptedConnection::Connect(std::span<const std::byte> data) {
  private_data.assign(data.begin(), data.end());
  if (Break()) return absl::UnavailableError("broken by the test");
  dat::Completion connected;
  connected.event = dat::Event::kConnected;
  completions_.push_back(std::move(connected));
  return absl::OkStatus();
}
absl::Status ScriptedConnection::Accept(std::span<const std::byte>) {
  return absl::UnimplementedError("scripted");
}
absl::Status ScriptedConnection::PostRdmaWrite(uint64_t, std::span<const dat::Segment>,
                                               dat::RemoteBuffer, bool) {
  return absl::UnimplementedError("scripted");
}
absl::Status ScriptedConnection::PostRdmaRead(uint64_t, std::span<const dat::Segment>,
                                              dat::RemoteBuffer) {
  return absl::UnimplementedError("scripted");
}

absl::Status ScriptedConnection::PostReceive(uint64_t cookie, dat::Segment into) {
  if (closed || Break()) return absl::UnavailableError("closed");
  ++receives_posted;
  receive_sizes.insert(into.size_bytes);
  receives_.emplace_back(cookie, into);
  return absl::OkStatus();
}

absl::Status ScriptedConnection::PostSend(uint64_t cookie, std::span<const dat::Segment> from,
                                          const SendOptions&) {
  if (closed || Break()) return absl::UnavailableError("closed");
  std::vector<std::byte> message;
  for (const dat::Segment& segment : from) {
    message.insert(message.end(), segment.data, segment.data + segment.size_bytes);
  }
  inbox_.push_back(std::move(message));
  dat::Completion sent;
  sent.event = dat::Event::kSend;
  sent.cookie = cookie;
  completions_.push_back(std::move(sent));
  return absl::OkStatus();
}

absl::StatusOr<dat::RemoteBuffer> ScriptedConnection::PostBind(const dat::Segment& part,
                                                               dat::Access access) {
  if (closed || Break()) return absl::UnavailableError("closed");
  auto window = domain_->Register({part.data, part.size_bytes}, access);
  if (!window.ok()) return window.status();
  const dat::RemoteBuffer remote{(*window)->target_address(), (*window)->context()};
  windows_[remote.context] = *std::move(window);
  ++server_->windows_bound;
  return remote;
}

absl::Status ScriptedConnection::PostInvalidate(uint64_t cookie, uint32_t context) {
  if (closed || windows_.erase(context) == 0) return absl::NotFoundError("no such window");
  dat::Completion ended;
  ended.event = dat::Event::kInvalidated;
  ended.cookie = cookie;
  completions_.push_back(std::move(ended));
  ++server_->windows_ended;
  return absl::OkStatus();
}

WaitHandle ScriptedConnection::Arm() {
  if (!completions_.empty() || !inbox_.empty() || (closed && !reported_end_)) return {};
  ++server_->idle_arms;
  return {fd_, 1 /* EPOLLIN */};
}

size_t ScriptedConnection::Poll(std::span<dat::Completion> out) {
  while (!inbox_.empty() && !closed) {
    std::vector<std::byte> message = std::move(inbox_.front());
    inbox_.pop_front();
    if (Break()) break;
    Receive(std::move(message));
  }
  size_t count = 0;
  while (count < out.size() && !completions_.empty()) {
    if (!closed && Break()) break;
    out[count++] = std::move(completions_.front());
    completions_.pop_front();
  }
  if (closed && completions_.empty() && count < out.size() && !reported_end_) {
    reported_end_ = true;
    out[count] = dat::Completion();
    out[count].event = dat::Event::kDisconnected;
    out[count++].status = absl::UnavailableError("the scripted connection was closed");
  }
  return count;
}

void ScriptedConnection::CloseAfterAnswers() {
  closed = true;
  inbox_.clear();
}

void ScriptedConnection::Close(absl::Status) {
  if (closed) return;
  closed = true;
  windows_.clear();
  // Messages and completions that were not taken are lost with the connection.
  completions_.clear();
  inbox_.clear();
}

// ---- Messages --------------------------------------------------------------------------------

bool ScriptedConnection::Checksums(const Request& request) const {
  return checksums && request.header.procedure != Proc::kClientConnectAuth &&
         request.header.procedure != Proc::kClientConnect;
}

// Checks the server's own count of outstanding requests, and the rules of chains (WIRE 8.1, 11.5).
void ScriptedConnection::CheckFlow(const Request& request) {
  auto violated = [&](const std::string& what) { server_->violations.push_back(what); };
  const wire::RequestHeader& h = request.header;
  if (outstanding_.count(h.stream_id) != 0) violated("stream in use");
  if (h.stream_id >= nreq_) violated(absl::StrCat("stream ", h.stream_id, " of ", nreq_));
  auto last = last_seq_.find(h.stream_id);
  if (last != last_seq_.end() && static_cast<uint16_t>(last->second + 1) != h.seq_number) {
    violated("seq_number does not follow");
  }
  last_seq_[h.stream_id] = h.seq_number;
  outstanding_[h.stream_id] = h.seq_number;
  if (outstanding_.size() > nreq_) violated("more than Nreq outstanding");
  server_->most_outstanding =
      std::max(server_->most_outstanding, static_cast<uint32_t>(outstanding_.size()));
  if (receives_.size() < outstanding_.size()) violated("no receive posted for the answer");
  bool back = (h.chain_flags & wire::kChfBack) != 0;
  if (back != last_forw_) violated("BACK differs from FORW before it");
  last_forw_ = (h.chain_flags & wire::kChfForw) != 0;
  if (checksums && Checksums(request) &&
      wire::MessageChecksum(request.message, request.order) != h.message_checksum) {
    violated("wrong checksum");
  }
}

void ScriptedConnection::Receive(std::vector<std::byte> message) {
  ++messages;
  if (bound) {
    auto answer = wire::DecodeResponseHeader(message, order);
    if (answer.ok()) return server_->directive_answers.push_back(answer->header);
    return server_->violations.push_back(std::string(answer.status().message()));
  }
  Request request;
  auto decoded = wire::DecodeRequestHeader(message, std::nullopt);
  if (!decoded.ok()) {
    server_->violations.push_back(std::string(decoded.status().message()));
    return Close(decoded.status());
  }
  request.header = decoded->header;
  request.order = decoded->order;
  request.message = std::move(message);
  CheckFlow(request);
  if ((request.header.chain_flags & wire::kChfBack) == 0) chain_broken = false;
  server_->log.push_back({request.header.procedure, request.header.chain_flags,
                          request.header.cred_handle, request.header.desired_nreq, request.order});
  if (server_->script && server_->script(*this, request)) return;
  if (server_->hold && connected_session) {
    held.push_back(std::move(request));
    return;
  }
  server_->Serve(*this, request);
}

wire::ResponseHeader ScriptedConnection::HeaderFor(const Request& request, DafsStatus status) {
  // A reply leaves one request less outstanding. Both sides compute Nreq from it.
  outstanding_.erase(request.header.stream_id);
  uint16_t target = connected_session || request.header.procedure == Proc::kClientConnectAuth
                        ? server_->target_nreq
                        : uint16_t{1};
  nreq_ = std::max<uint32_t>(nreq_ - 1, target);
  wire::ResponseHeader header = wire::ResponseTo(request.header, status, target);
  if (server_->spec_cond) header.spec_cond = server_->spec_cond(request);
  return header;
}

void ScriptedConnection::Refuse(const Request& request, DafsStatus status) {
  chain_broken = true;
  std::vector<std::byte> bytes(65536);
  wire::EncodeOptions options;
  options.checksum = Checksums(request);
  auto size = wire::EncodeErrorResponse(HeaderFor(request, status), request.header.procedure,
                                        request.order, bytes, options);
  if (!size.ok()) return server_->violations.push_back(size.status().ToString());
  bytes.resize(*size);
  Send(std::move(bytes));
}

void ScriptedConnection::Send(std::vector<std::byte> bytes) {
  if (closed) return;
  if (receives_.empty()) {
    server_->violations.push_back("no receive posted");
    return Close(absl::InternalError("no receive posted"));
  }
  auto [cookie, segment] = receives_.front();
  receives_.pop_front();
  std::memcpy(segment.data, bytes.data(), std::min<size_t>(bytes.size(), segment.size_bytes));
  dat::Completion completion;
  completion.event = dat::Event::kReceive;
  completion.cookie = cookie;
  completion.size_bytes = static_cast<uint32_t>(bytes.size());
  completions_.push_back(std::move(completion));
}

void ScriptedConnection::AnswerFetch(const Request& request, DafsStatus status,
                                     std::vector<std::byte> message) {
  wire::WriteResponseHeader(HeaderFor(request, status), request.order, message, message.size(),
                            Checksums(request));
  Send(std::move(message));
}

bool ScriptedConnection::RdmaWrite(const wire::DirectOpBuffer& to,
                                   std::span<const std::byte> data) {
  std::byte* at = Reach(*domain_, to, data.size(), dat::Access::kRemoteWrite);
  if (at == nullptr) {
    server_->violations.push_back("RDMA write refused");
    return false;
  }
  std::memcpy(at, data.data(), data.size());
  return true;
}

std::vector<std::byte> ScriptedConnection::RdmaRead(const wire::DirectOpBuffer& from) {
  std::byte* at = Reach(*domain_, from, from.buffer_byte_count, dat::Access::kRemoteRead);
  if (at == nullptr) {
    server_->violations.push_back("RDMA read refused");
    return {};
  }
  return {at, at + from.buffer_byte_count};
}

// ---- A correct server ------------------------------------------------------------------------

wire::FileAttributes ScriptedAttributes(uint64_t bits) {
  wire::FileAttributes attributes;
  attributes.object_type = wire::ObjectType::kReg;
  attributes.mode = 0644;
  attributes.object_size = uint64_t{1} << 40;
  attributes.file_id = 4711;
  attributes.num_links = 1;
  attributes.included = bits;
  attributes.valid = bits & ~(wire::kFattrAcl | wire::kFattrWriteOnly);
  return attributes;
}

namespace {

wire::FileHandle HandleOf(std::string_view name) {
  wire::FileHandle handle;
  handle.fshandle.bytes[0] = 1;
  std::memcpy(handle.fileid.bytes.data(), name.data(),
              std::min(name.size(), handle.fileid.bytes.size()));
  return handle;
}

template <class Args>
void Grant(const ScriptedServer& server, const Args& args, wire::ResOf<Args>& res) {
  res.session_id =
      wire::OpaqueFromUint64<wire::SessionId>(static_cast<uint64_t>(server.connections_made));
  res.client_id = wire::OpaqueFromUint64<wire::ClientId>(server.instance);
  res.use_response_cache = args.use_response_cache && server.keeps_responses;
  res.use_checksums = args.use_checksums;
  res.use_back_control_channel = args.use_back_control_channel && server.back_control;
  res.max_credentials = args.max_credentials;
  res.max_request_size = args.max_request_size;
  res.max_response_size = args.max_response_size;
  res.max_requests = server.max_requests;
}

std::vector<std::byte> FileBytes(uint64_t offset, size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = ScriptedByte(offset + i);
  return bytes;
}

}  // namespace

void ScriptedServer::Restart(bool with_cache) {
  std::vector<ScriptedConnection*> all = connections;
  for (ScriptedConnection* connection : all) connection->CloseAfterAnswers();
  ++instance;
  ++write_verifier;
  opens.clear();
  unstable.clear();
  if (!with_cache) responses.clear();
}

namespace {

std::string NameOf(const wire::FileHandle& handle) {
  const char* name = reinterpret_cast<const char*>(handle.fileid.bytes.data());
  return std::string(name, strnlen(name, handle.fileid.bytes.size()));
}

// An open is identified by its file and its owner.
wire::StateId OpenIn(ScriptedServer& server, const wire::FileHandle& file,
                     const std::string& owner) {
  const std::string key = absl::StrCat(NameOf(file), "|", owner);
  for (const auto& [state_id, known] : server.opens) {
    if (known == key) return wire::OpaqueFromUint64<wire::StateId>(state_id);
  }
  static uint64_t serial = 0;
  const uint64_t state_id = server.instance << 40 | ++serial;
  server.opens[state_id] = key;
  return wire::OpaqueFromUint64<wire::StateId>(state_id);
}

// Grants a delegation in place of the open in `res`. The owner of a delegation is "<delegation>".
template <class Args, class Res>
void Delegate(ScriptedServer& server, ScriptedConnection& c, const Args& args, Res& res) {
  if ((args.share_access & wire::kShareWantOpenXorDelegation) == 0) return;
  const std::string held = absl::StrCat(NameOf(res.filehandle), "|<delegation>");
  const bool writes = (args.share_access & wire::kShareWrite) != 0;
  if (server.delegates == wire::OpenDelegationType::kNone) {
    if (writes) std::erase_if(server.opens, [&](const auto& open) { return open.second == held; });
    return;
  }
  server.opens.erase(wire::OpaqueToUint64(res.state_id));
  res.state_id = {};
  res.delegation_type = server.delegates;
  res.delegation_state_id = c.current_state_id = OpenIn(server, res.filehandle, "<delegation>");
  res.permissions_acemask = writes ? 7 : 1;
}

// Returns OK, or the error for a state id that the server does not know (4.4.1.2).
DafsStatus CheckStateId(const ScriptedServer& server, const wire::StateId& state_id) {
  if (state_id.is_zero()) return DafsStatus::kOk;
  const uint64_t value = wire::OpaqueToUint64(state_id);
  if (value >> 40 != server.instance) return DafsStatus::kStaleStateId;
  return server.opens.contains(value) ? DafsStatus::kOk : DafsStatus::kBadStateId;
}

void Apply(std::vector<std::byte>& bytes, uint64_t offset, std::span<const std::byte> data) {
  bytes.resize(std::max(bytes.size(), static_cast<size_t>(offset + data.size())));
  std::copy(data.begin(), data.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
}

// Truncates both the stable and the unstable data to `size` bytes.
void Cut(ScriptedServer& server, const wire::FileHandle& file, uint64_t size) {
  const std::string name = NameOf(file);
  std::vector<std::byte>& safe = server.written[name];
  safe.resize(std::min<size_t>(safe.size(), size));
  for (auto& [at, bytes] : server.unstable[name]) {
    bytes.resize(std::min<size_t>(bytes.size(), size - std::min(size, at)));
  }
}

void Store(ScriptedServer& server, const wire::FileHandle& file, uint64_t offset,
           std::span<const std::byte> data, wire::StableHow how) {
  if (how == wire::StableHow::kUnstable) {
    server.unstable[NameOf(file)].emplace_back(offset, std::vector(data.begin(), data.end()));
  } else {
    Apply(server.written[NameOf(file)], offset, data);
  }
}

}  // namespace

template <Proc proc>
void ScriptedServer::Execute(ScriptedConnection& c, const Request& request) {
  using Args = typename wire::ProcTraits<proc>::Args;
  using Res = typename wire::ProcTraits<proc>::Res;
  Args args;
  DafsStatus decoded = wire::DecodeArgs(request.message, request.order, args);
  if (decoded != DafsStatus::kOk) {
    violations.push_back(absl::StrCat("undecodable arguments, status ", uint32_t(decoded)));
    return c.Refuse(request, decoded);
  }
  if ((request.header.chain_flags & wire::kChfFh) != 0) {
    if (wire::FileHandle* field = wire::ChainFileHandle(args)) *field = c.current;
  }
  if constexpr (wire::InfoOf(proc).chf_state_id && proc != Proc::kOpen) {
    wire::StateId* state_id = wire::ChainStateId(args);
    if ((request.header.chain_flags & wire::kChfStateId) != 0) *state_id = c.current_state_id;
    DafsStatus known = CheckStateId(*this, *state_id);
    if (known != DafsStatus::kOk) return c.Refuse(request, known);
    c.current_state_id = *state_id;
  }
  if (proc == Proc::kOpenHandle && !open_handle) return c.Refuse(request, DafsStatus::kNotSupp);
  if (proc == Proc::kServerIdentity && !identity.has_value()) {
    return c.Refuse(request, DafsStatus::kNotSupp);
  }
  ++executed[proc];
  wire::EncodeOptions options;
  std::vector<std::byte> data;
  Res res;
  if constexpr (proc == Proc::kClientConnectAuth) {
    Grant(*this, args, res);
    c.session_id = wire::OpaqueToUint64(res.session_id);
    res.auth_res.auth_type = args.auth_req.auth_type;
    res.trusted = trusted;
    c.checksums = args.use_checksums;
  } else if constexpr (proc == Proc::kClientConnect) {
    Grant(*this, args, res);
    c.session_id = wire::OpaqueToUint64(res.session_id);
    c.checksums = args.use_checksums;
  } else if constexpr (proc == Proc::kClientAuth) {
    res.auth_res.auth_type = args.auth_req.auth_type;
    res.trusted = trusted;
  } else if constexpr (proc == Proc::kConnectBind) {
    c.bound = true;
    c.order = request.order;
    res.max_requests = args.max_requests;
    res.max_request_size = args.max_request_size;
    res.max_response_size = args.max_response_size;
  } else if constexpr (proc == Proc::kPromises) {
    if (promises.granted == 0) return c.Refuse(request, DafsStatus::kNotSupp);
    res = promises;
  } else if constexpr (proc == Proc::kRegisterCred) {
    ++credentials;
    std::memcpy(res.cred_handle.bytes.data(), &credentials, 4);
  } else if constexpr (proc == Proc::kReleaseCred) {
    ++released;
  } else if constexpr (proc == Proc::kGetRootHandle) {
    res.root_handle = HandleOf("/");
  } else if constexpr (proc == Proc::kLookup) {
    res.filehandle = HandleOf(args.path.back());
    res.component_count = static_cast<uint32_t>(args.path.size());
  } else if constexpr (proc == Proc::kGetattrInline) {
    res.obj_attributes = ScriptedAttributes(args.attr_request_bitmap);
    // Lets the test recognise whose attributes these are.
    res.obj_attributes.file_id = args.filehandle.fileid.bytes[0];
  } else if constexpr (proc == Proc::kSetattrInline) {
    if (args.obj_attributes.has(wire::kFattrObjectSize)) {
      Cut(*this, args.filehandle, args.obj_attributes.object_size);
    }
  } else if constexpr (proc == Proc::kCreate) {
    res.filehandle = HandleOf(args.component);
  } else if constexpr (proc == Proc::kOpen) {
    res.filehandle = args.claim_type == wire::OpenClaimType::kPrevious
                         ? args.filehandle
                         : HandleOf(args.pathname.back());
    res.state_id = c.current_state_id = OpenIn(*this, res.filehandle, args.owner);
    Delegate(*this, c, args, res);
  } else if constexpr (proc == Proc::kOpenDelegated) {
    res.filehandle = args.filehandle;
    res.state_id = c.current_state_id = OpenIn(*this, res.filehandle, args.owner);
    Delegate(*this, c, args, res);
  } else if constexpr (proc == Proc::kOpenOwner) {
    res.state_id = c.current_state_id = OpenIn(*this, args.filehandle, args.owner);
  } else if constexpr (proc == Proc::kExtensions) {
    res.granted = args.wanted & extensions;
  } else if constexpr (proc == Proc::kServerIdentity) {
    res = *identity;
  } else if constexpr (proc == Proc::kOpenHandle) {
    res.filehandle = args.filehandle;
    res.state_id = c.current_state_id = OpenIn(*this, res.filehandle, args.owner);
  } else if constexpr (proc == Proc::kClose || proc == Proc::kDelegreturn) {
    opens.erase(wire::OpaqueToUint64(args.state_id));
  } else if constexpr (proc == Proc::kCheckResponse || proc == Proc::kFetchResponse) {
    auto kept = responses.find({wire::OpaqueToUint64(args.session_id), args.xid_stream});
    if (kept == responses.end() || kept->second.seq_number != args.xid_seq ||
        static_cast<uint32_t>(kept->second.proc) != args.procedure) {
      const bool known = std::any_of(responses.begin(), responses.end(), [&](const auto& one) {
        return one.first.first == wire::OpaqueToUint64(args.session_id);
      });
      return c.Refuse(request, known || keeps_unanswered ? DafsStatus::kNoXidMatch
                                                         : DafsStatus::kUnknownSession);
    }
    if constexpr (proc == Proc::kFetchResponse) {
      return c.AnswerFetch(request, kept->second.status, kept->second.message);
    }
  } else if constexpr (proc == Proc::kDiscardResponses) {
    std::erase_if(responses, [&](const auto& one) {
      return one.first.first == wire::OpaqueToUint64(args.session_id);
    });
  } else if constexpr (proc == Proc::kReadInline) {
    data = FileBytes(args.offset, args.byte_count);
    res.bytes_read = args.byte_count;
    options.inline_data.data = data;
  } else if constexpr (proc == Proc::kReadDirect) {
    data = FileBytes(args.offset, args.byte_count);
    std::span<const std::byte> left = data;
    for (const wire::DirectOpBuffer& buffer : args.read_data_buffers) {
      const size_t here = std::min<size_t>(left.size(), buffer.buffer_byte_count);
      if (!c.RdmaWrite(buffer, left.first(here))) return;
      left = left.subspan(here);
    }
    res.bytes_read = args.byte_count;
    if (c.checksums) res.direct_checksum = wire::ComputeChecksum(data, request.order);
  } else if constexpr (proc == Proc::kWriteInline) {
    std::span<const std::byte> found;
    if (wire::FindInlineData(request.message, args, 0, found) == DafsStatus::kOk) {
      Store(*this, args.filehandle, args.offset, found, args.stable_how);
    }
    res.count = args.byte_count;
    res.committed = args.stable_how;
    res.verifier = wire::OpaqueFromUint64<wire::Verifier>(write_verifier);
  } else if constexpr (proc == Proc::kWriteDirect) {
    for (const wire::DirectOpBuffer& buffer : args.write_data_buffers) {
      const std::vector<std::byte> part = c.RdmaRead(buffer);
      data.insert(data.end(), part.begin(), part.end());
    }
    if (c.checksums && wire::ComputeChecksum(data, request.order) != args.direct_checksum) {
      violations.push_back("wrong direct_checksum");
    }
    Store(*this, args.filehandle, args.offset, data, args.stable_how);
    res.count = args.byte_count;
    res.committed = args.stable_how;
    res.verifier = wire::OpaqueFromUint64<wire::Verifier>(write_verifier);
  } else if constexpr (proc == Proc::kAppendInline || proc == Proc::kAppendDirect) {
    if constexpr (proc == Proc::kAppendInline) {
      std::span<const std::byte> found;
      if (wire::FindInlineData(request.message, args, 0, found) == DafsStatus::kOk) {
        data.assign(found.begin(), found.end());
      }
    } else {
      data = c.RdmaRead(args.write_data_buffer);
      data.resize(args.byte_count);
    }
    std::vector<std::byte>& all = appended[NameOf(args.filehandle)];
    res.offset = all.size();
    res.committed = args.stable_how;
    all.insert(all.end(), data.begin(), data.end());
  } else if constexpr (proc == Proc::kCommit) {
    std::vector<std::byte>& safe = written[NameOf(args.filehandle)];
    for (const auto& [at, bytes] : unstable[NameOf(args.filehandle)]) Apply(safe, at, bytes);
    unstable.erase(NameOf(args.filehandle));
    res.writeverf = wire::OpaqueFromUint64<wire::Verifier>(write_verifier);
  }
  constexpr const wire::ProcInfo& info = wire::InfoOf(proc);
  if constexpr (info.filehandle_after == wire::Current::kFromResult) {
    c.current = wire::ResultFileHandle(res);
  } else if constexpr (info.filehandle_after == wire::Current::kTheOneUsed) {
    c.current = *wire::ChainFileHandle(args);
  }
  std::vector<std::byte> answer = c.Encoded(request, res, DafsStatus::kOk, options);
  if (answer.empty()) return;
  const bool saved = (request.header.chain_flags & wire::kChfSave) != 0;
  if (wire::ModifiesState(info.category) || saved) {
    responses[{c.session_id, request.header.stream_id}] = {request.header.seq_number, proc,
                                                           DafsStatus::kOk, answer};
  }
  c.Send(std::move(answer));
  if constexpr (proc == Proc::kClientConnectAuth || proc == Proc::kClientAuth) {
    c.connected_session = true;
  }
}

void ScriptedServer::Serve(ScriptedConnection& connection, const Request& request) {
  const bool back = (request.header.chain_flags & wire::kChfBack) != 0;
  if (back && connection.chain_broken) return connection.Refuse(request, DafsStatus::kChainBroken);
  bool known = wire::VisitProc(request.header.procedure,
                               [&]<Proc proc>() { Execute<proc>(connection, request); });
  if (!known) connection.Refuse(request, DafsStatus::kNotSupp);
}

void ScriptedServer::ServeHeld(ScriptedConnection& connection) {
  while (!connection.held.empty()) {
    Request request = std::move(connection.held.front());
    connection.held.pop_front();
    Serve(connection, request);
  }
}

}  // namespace dafs::client::testing
