#include "wire/rpcrdma/connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"

namespace dafs::rpcrdma {
namespace {

// Receives for messages that no credit covers: announcements of properties, one request for a
// change and its response, updates, and errors.
constexpr uint32_t kUncountedMessages = 16;
// Memory windows of one call: its arguments and results, its long call and its long reply, each
// twice because those of an attempt may still be ending.
constexpr uint32_t kWindowsPerCall = 12;

// The msg_type of an RPC message; nothing if it is too short.
std::optional<Direction> DirectionOf(std::span<const std::byte> rpc) {
  uint32_t xid = 0;
  Direction direction = Direction::kCall;
  XdrDecoder xdr(rpc);
  xdr(xid, direction);
  if (!xdr.ok()) return std::nullopt;
  return direction;
}

Channel::Sizes SizesFor(const Options& options) {
  const uint32_t segments =
      (options.max_read_chunks + options.max_write_chunks + 2) * options.max_segments;
  return {.receives = 2 * options.credits + kUncountedMessages,
          .sends = 2 * options.credits + kUncountedMessages,
          .message_bytes = options.receive_capacity,
          .rdma_operations = options.credits * segments,
          .windows = options.credits * kWindowsPerCall};
}

absl::Status CheckOptions(const Options& options) {
  const bool versions = options.lowest_version >= kVersion1 &&
                        options.lowest_version <= options.highest_version &&
                        options.highest_version <= kVersion2;
  const bool sizes = options.receive_size >= kDefaultInline &&
                     options.receive_capacity >= options.receive_size &&
                     options.long_bytes >= kDefaultInline;
  if (versions && sizes && options.credits > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("options: versions, sizes or credits out of range");
}

}  // namespace

Connection::Connection(Loop& loop, const Options& options, bool is_client) : loop_(loop) {
  link_.options = options;
  link_.is_client = is_client;
  link_.version = is_client ? options.highest_version : 0;
  link_.own = {options.receive_size, options.backward};
  link_.fail = [this](const absl::Status& why) { Fail(why); };
}

absl::Status Connection::Prepare(dat::PendingEndpoint& pending, Handler handler) {
  RETURN_IF_ERROR(CheckOptions(link_.options));
  ASSIGN_OR_RETURN(link_.channel, Channel::Create(pending, SizesFor(link_.options)));
  ASSIGN_OR_RETURN(requester_, Requester::Create(loop_, link_));
  ASSIGN_OR_RETURN(responder_, Responder::Create(link_, std::move(handler)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Connect(Loop& loop,
                                                                dat::PendingEndpoint& pending,
                                                                const Options& options,
                                                                Handler handler) {
  std::unique_ptr<Connection> connection(new Connection(loop, options, true));
  RETURN_IF_ERROR(connection->Prepare(pending, std::move(handler)));
  RETURN_IF_ERROR(connection->link_.channel->endpoint().Connect({}));
  loop.Add(connection.get());
  return connection;
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Accept(Loop& loop,
                                                               dat::PendingEndpoint& pending,
                                                               const Options& options,
                                                               Handler handler) {
  std::unique_ptr<Connection> connection(new Connection(loop, options, false));
  RETURN_IF_ERROR(connection->Prepare(pending, std::move(handler)));
  RETURN_IF_ERROR(connection->link_.channel->endpoint().Accept({}));
  loop.Add(connection.get());
  return connection;
}

Connection::~Connection() {
  loop_.Remove(this);
  // Before the memory of the requester and the responder.
  if (link_.channel != nullptr) link_.channel->Close();
}

void Connection::Start(Call call, Requester::Done done) {
  requester_->Start(std::move(call), std::move(done));
  loop_.RequestPoll(this);
}

bool Connection::Poll() { return !is_down_ && link_.channel->Poll(*this); }

void Connection::OnConnected() {
  is_up_ = true;
  requester_->SendQueued();
}

void Connection::OnDisconnected(const absl::Status& why) {
  is_down_ = true;
  Fail(why.ok()
           ? absl::UnavailableError("the peer closed the connection")
           : absl::UnavailableError(absl::StrCat("connection lost: ", std::string(why.message()))));
  // Only now can the peer no longer reach our memory.
  requester_->FailAll(status_);
  properties_.FailAll(status_);
}

void Connection::Fail(const absl::Status& why) {
  if (!status_.ok()) return;
  status_ = why;
  if (is_down_) return;
  link_.channel->endpoint().Abort(why);
  loop_.RequestPoll(this);  // it reports the end
}

// The server: takes over the version of the client's first message that it supports. Returns false
// if the message has been refused, or is of another version than the connection.
bool Connection::TakeVersion(const Header& header) {
  const Options& options = link_.options;
  if (link_.is_client) return true;
  if (header.version < options.lowest_version || header.version > options.highest_version) {
    responder_->Refuse(header, {.code = ErrorCode::kVersion,
                                .low = options.lowest_version,
                                .high = options.highest_version});
    return false;
  }
  if (!link_.version_agreed) {
    link_.version = header.version;
    link_.version_agreed = true;
  } else if (link_.version != header.version) {
    Fail(absl::DataLossError(absl::StrCat("a message of version ", header.version,
                                          " on a connection of version ", link_.version)));
    return false;
  }
  return true;
}

void Connection::OnFault(const DecodedHeader& decoded) {
  const Header& header = decoded.header;
  switch (decoded.fault) {
    case HeaderFault::kProcedure:
      return responder_->Refuse(header, {.code = ErrorCode::kInvalidProcedure});
    case HeaderFault::kBadXdr: {
      // Errors flow to requesters only (7.2.2).
      const bool is_ours = header.proc == Proc::kRespondProperties ||
                           header.chunks.direction == Direction::kReply ||
                           (header.version == kVersion1 && link_.is_client);
      if (header.proc == Proc::kError) {
        return Fail(absl::DataLossError("an error of the peer cannot be decoded"));
      }
      if (is_ours)
        return requester_->OnBadReply(header.xid, "the header of the reply cannot be decoded");
      return responder_->Refuse(header, {.code = ErrorCode::kBadXdr});
    }
    default:
      return Fail(absl::DataLossError("a message that is not an RPC-over-RDMA header"));
  }
}

void Connection::OnMessage(std::span<const std::byte> message,
                           std::optional<uint32_t> invalidated) {
  if (!status_.ok()) return;
  const DecodedHeader decoded = DecodeHeader(message);
  const Header& header = decoded.header;
  const bool is_version_fault = decoded.fault == HeaderFault::kVersion;
  if (decoded.fault == HeaderFault::kTooShort || (is_version_fault && link_.is_client)) {
    return OnFault(decoded);
  }
  if (!TakeVersion(header)) return;
  if (decoded.fault != HeaderFault::kNone) return OnFault(decoded);
  const std::span<const std::byte> payload = message.subspan(decoded.size);
  switch (header.proc) {
    case Proc::kMessage:
    case Proc::kNoMessage:
      OnRpc(header, payload, invalidated);
      break;
    case Proc::kError:
      OnError(header);
      break;
    case Proc::kOptional:
      OnOptional(header, payload);
      break;
    default:
      if (const auto error = properties_.OnOperation(header)) {
        responder_->Refuse(header, {.code = *error});
      }
  }
  // The first message of a connection may be no announcement: the server may know version 1 only.
  if (status_.ok() && link_.version_agreed) properties_.Announce();
}

void Connection::OnRpc(const Header& header, std::span<const std::byte> payload,
                       std::optional<uint32_t> invalidated) {
  const std::optional<Direction> carried = DirectionOf(payload);
  const bool is_inline = header.proc == Proc::kMessage;
  Direction direction = header.chunks.direction;
  if (header.version == kVersion1) {
    // RFC 8167, 4.1: the RPC message has the direction. Without one, only a call has a
    // position-zero chunk.
    direction = is_inline                     ? carried.value_or(Direction::kCall)
                : header.chunks.reads.empty() ? Direction::kReply
                                              : Direction::kCall;
  }
  const bool is_wrong = is_inline && carried != direction;  // 7.2.1, 7.2.2
  if (direction == Direction::kReply) {
    if (is_wrong) {
      return requester_->OnBadReply(header.xid, "the reply carries no RPC reply");
    }
    return requester_->OnReply(header, payload, invalidated);
  }
  if (is_wrong) return responder_->Refuse(header, {.code = ErrorCode::kBadXdr});
  responder_->OnCall(header, payload);
}

void Connection::OnError(const Header& header) {
  if (!properties_.OnError(header)) requester_->OnError(header);
}

void Connection::OnOptional(const Header& header, std::span<const std::byte> payload) {
  const OptionalBody& body = header.optional;
  const std::optional<Direction> carried = DirectionOf(payload);
  if (carried.has_value() && *carried != body.direction) {
    if (body.direction == Direction::kReply) return;
    return responder_->Refuse(header, {.code = ErrorCode::kBadXdr});
  }
  if (optional_ != nullptr && optional_(body, payload)) return;
  // Errors flow to requesters only (7.2.2), so an unknown reply is dropped.
  if (body.direction == Direction::kReply) return;
  responder_->Refuse(header, {.code = ErrorCode::kInvalidOption});
}

absl::Status Connection::SendOptional(uint32_t type, Bytes info,
                                      std::span<const std::byte> payload) {
  if (version() != kVersion2) {
    return absl::FailedPreconditionError("optional operations need version 2");
  }
  Header header;
  XdrDecoder xdr(payload);
  if (!payload.empty()) xdr(header.xid);
  header.credits = link_.options.credits;
  header.proc = Proc::kOptional;
  header.optional = {
      DirectionOf(payload).value_or(link_.is_client ? Direction::kCall : Direction::kReply), type,
      std::move(info)};
  return link_.channel->Send(EncodeHeader(header), payload);
}

uint32_t VersionForRetry(const Connection& connection, const Options& options) {
  const bool unanswered = connection.version() == 0 && !connection.status().ok();
  return unanswered ? std::max(options.lowest_version, kVersion1) : options.highest_version;
}

}  // namespace dafs::rpcrdma
