// The headers of ONC RPC messages. Spec: RFC 5531, sections 9 and 8.2, appendix A (AUTH_SYS).
// Values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "wire/rpcrdma/xdr.h"

namespace dafs::rpcrdma {

struct RpcCall {
  uint32_t xid = 0;
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
};

// The caller's identity. Without one, a call has AUTH_NONE.
struct AuthSys {
  std::string machine;  // at most 255 bytes
  uint32_t uid = 0;
  uint32_t gid = 0;
};

// The header of a call; its arguments follow.
Bytes EncodeCall(const RpcCall& call, const AuthSys* auth = nullptr);

struct DecodedCall {
  RpcCall call;
  size_t arguments_at = 0;  // offset in the message
};
// kDataLoss: not a call of RPC version 2.
absl::StatusOr<DecodedCall> DecodeCall(std::span<const std::byte> message);

enum class ReplyStatus : uint32_t {  // accept_stat; then what a denied call got
  kSuccess = 0,
  kProgramUnavailable = 1,
  kProgramMismatch = 2,
  kProcedureUnavailable = 3,
  kGarbageArguments = 4,
  kSystemError = 5,
  kRpcMismatch = 100,
  kAuthError = 101,
};

struct RpcReply {
  uint32_t xid = 0;
  ReplyStatus status = ReplyStatus::kSuccess;
  uint32_t low = 0, high = 0;  // kProgramMismatch, kRpcMismatch: the versions there are
  uint32_t auth_status = 0;    // kAuthError
};

// The header of an accepted reply, or of the kRpcMismatch or kAuthError of a denied one.
Bytes EncodeReply(const RpcReply& reply);

struct DecodedReply {
  RpcReply reply;
  size_t results_at = 0;  // offset in the message
};
// kDataLoss: not a reply.
absl::StatusOr<DecodedReply> DecodeReply(std::span<const std::byte> message);

}  // namespace dafs::rpcrdma
