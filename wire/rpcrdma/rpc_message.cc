#include "wire/rpcrdma/rpc_message.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dafs::rpcrdma {
namespace {

constexpr uint32_t kRpcVersion = 2;
constexpr uint32_t kCall = 0, kReply = 1;
constexpr uint32_t kAccepted = 0, kDenied = 1;
constexpr uint32_t kAuthSys = 1;
constexpr uint32_t kDeniedMismatch = 0, kDeniedAuth = 1;

}  // namespace

Bytes EncodeCall(const RpcCall& call, const AuthSys* auth) {
  Bytes bytes;
  XdrEncoder xdr(bytes);
  xdr(call.xid, kCall, kRpcVersion, call.program, call.version, call.procedure);
  Bytes body;
  if (auth != nullptr) {
    XdrEncoder credential(body);
    credential(uint32_t{0}, std::as_bytes(std::span(auth->machine)), auth->uid, auth->gid,
               uint32_t{0});
  }
  xdr(auth != nullptr ? kAuthSys : uint32_t{0}, body);
  xdr(uint32_t{0}, uint32_t{0});  // verifier: AUTH_NONE
  return bytes;
}

absl::StatusOr<DecodedCall> DecodeCall(std::span<const std::byte> message) {
  DecodedCall decoded;
  XdrDecoder xdr(message);
  uint32_t type = 0, rpc_version = 0, flavor = 0;
  Bytes opaque;
  xdr(decoded.call.xid, type, rpc_version);
  xdr(decoded.call.program, decoded.call.version, decoded.call.procedure);
  xdr(flavor, opaque, flavor, opaque);
  if (!xdr.ok() || type != kCall || rpc_version != kRpcVersion) {
    return absl::DataLossError("not a call of RPC version 2");
  }
  decoded.arguments_at = xdr.position();
  return decoded;
}

Bytes EncodeReply(const RpcReply& reply) {
  Bytes bytes;
  XdrEncoder xdr(bytes);
  xdr(reply.xid, kReply);
  if (reply.status == ReplyStatus::kRpcMismatch) {
    xdr(kDenied, kDeniedMismatch, reply.low, reply.high);
  } else if (reply.status == ReplyStatus::kAuthError) {
    xdr(kDenied, kDeniedAuth, reply.auth_status);
  } else {
    xdr(kAccepted, uint32_t{0}, uint32_t{0}, reply.status);
    if (reply.status == ReplyStatus::kProgramMismatch) xdr(reply.low, reply.high);
  }
  return bytes;
}

absl::StatusOr<DecodedReply> DecodeReply(std::span<const std::byte> message) {
  DecodedReply decoded;
  RpcReply& reply = decoded.reply;
  XdrDecoder xdr(message);
  uint32_t type = 0, accepted = 0, word = 0;
  xdr(reply.xid, type, accepted);
  if (type != kReply || accepted > kDenied) xdr.Fail();
  if (accepted == kAccepted) {
    Bytes verifier;
    xdr(word, verifier, reply.status);
    if (reply.status > ReplyStatus::kSystemError) xdr.Fail();
    if (reply.status == ReplyStatus::kProgramMismatch) xdr(reply.low, reply.high);
  } else {
    xdr(word);
    if (word > kDeniedAuth) xdr.Fail();
    reply.status = word == kDeniedMismatch ? ReplyStatus::kRpcMismatch : ReplyStatus::kAuthError;
    if (word == kDeniedMismatch) {
      xdr(reply.low, reply.high);
    } else {
      xdr(reply.auth_status);
    }
  }
  if (!xdr.ok()) return absl::DataLossError("not an RPC reply");
  decoded.results_at = xdr.position();
  return decoded;
}

}  // namespace dafs::rpcrdma
