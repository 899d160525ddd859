// Steps 1 to 10 of the order in which a responder examines a request. Spec: WIRE.md 9.2 (R45), 8.1,
// 8.2, 11.4. What depends on the state of the server is passed in. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "wire/codec.h"
#include "wire/header.h"

namespace dafs::wire {

// The place in a chain, kept per channel from request to request. Spec: WIRE.md 8.1, 8.2.
struct ChainState {
  bool forw = false;        // the request before had FORW
  bool broken = false;      // a member of the present chain has failed
  bool bulk_fetch = false;  // a bulk fetch stands before in the present chain
};

// What the responder knows about the channel a request came in on.
struct RequestContext {
  std::optional<ByteOrder> order;  // of the session; nullopt before the first message
  bool checksum_due = false;       // a message_checksum is due (the table of section 6)
  bool has_session = false;        // the channel belongs to a session
  bool bound_channel = false;      // an optional channel: CONNECT_BIND may come again
  bool authenticated = false;
  bool back_control = false;  // the responder is the client, on the Back-control Channel
  uint32_t granted_nreq = 1;  // stream_id is below this
  // Whether the responder offers `proc` at all; checked after the table.
  absl::FunctionRef<bool(Proc)> implements;
  // Whether a cred_handle that is not zero is registered.
  absl::FunctionRef<bool(const CredHandle&)> knows_cred;
};

// What becomes of a request.
struct RequestVerdict {
  bool close_channel = false;  // step 1 failed; nothing else is filled in
  DafsStatus status = DafsStatus::kOk;
  // Not OK before step 10: the answer is the bare header (EncodeResponseHeaderOnly).
  bool header_only = false;
  // For the answer: 1, but for ILLEGAL_PROT the version of 11.4.
  uint32_t response_version = kProtocolVersion;
  RequestHeader header;
  ByteOrder order = ByteOrder::kLittle;
  const ProcInfo* proc = nullptr;
};

// Steps 1 to 9. `chain` is brought up to date for the request's flags; after the request was
// executed, or failed at step 10 or 11, the responder calls ChainMemberDone.
RequestVerdict CheckRequest(std::span<const std::byte> message, const RequestContext& context,
                            ChainState& chain);

// The request that was just checked has ended with `status`: anything but OK breaks its chain.
void ChainMemberDone(DafsStatus status, ChainState& chain);

// Step 10: decodes the arguments, and for inline writes finds the data. kOk, or the status to
// answer (EncodeErrorResponse). Includes CHAIN_FORM for CHF_STATEID with a claim other than
// CLAIM_DELEGATE_CUR.
template <class Args>
DafsStatus CheckArgs(std::span<const std::byte> message, const RequestVerdict& verdict,
                     uint32_t inline_write_header_size, Args& args,
                     std::span<const std::byte>& data) {
  DafsStatus status = DecodeArgs(message, verdict.order, args);
  if (status != DafsStatus::kOk) return status;
  if constexpr (Args::kProc == Proc::kWriteInline || Args::kProc == Proc::kAppendInline) {
    status = FindInlineData(message, args, inline_write_header_size, data);
  }
  if constexpr (Args::kProc == Proc::kOpen) {
    if ((verdict.header.chain_flags & kChfStateId) != 0 &&
        args.claim_type != OpenClaimType::kDelegateCur) {
      status = DafsStatus::kChainForm;
    }
  }
  return status;
}

}  // namespace dafs::wire
