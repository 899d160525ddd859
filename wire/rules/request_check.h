// Steps 1 to 10 of the order in which a responder examines a request. Spec: WIRE.md 9.2 (R45), 8.1,
// 8.2, 11.4. What depends on the state of the server is passed in. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "wire/codec/codec.h"
#include "wire/protocol/header.h"
#include "wire/rules/argument_rules.h"

namespace dafs::wire {

// Whether `proc` is one of the connect requests, which carry no message_checksum (section 6).
bool IsConnect(Proc proc);

// The place in a chain, kept per channel from request to request. Spec: WIRE.md 8.1, 8.2.
struct ChainState {
  bool forw = false;        // the request before had FORW
  bool broken = false;      // a member of the present chain has failed
  bool bulk_fetch = false;  // a bulk fetch stands before in the present chain
  uint64_t chain = 0;       // the number of the present chain; a request alone is a chain too
};

// What the responder knows about the channel a request came in on.
struct RequestContext {
  std::optional<ByteOrder> order =
      std::nullopt;            // of the session; nullopt before the first message
  bool checksum_due = false;   // a message_checksum is due (the table of section 6)
  bool has_session = false;    // the channel belongs to a session
  bool bound_channel = false;  // an optional channel: CONNECT_BIND may come again
  bool authenticated = false;
  bool back_control = false;         // the responder is the client, on the Back-control Channel
  uint32_t granted_nreq = 1;         // stream_id is below this
  NameRule names = NameRule::kUtf8;  // of the session
  // Whether the responder offers `proc` at all; empty: all that the table has.
  std::function<bool(Proc)> implements = {};
  // Whether a cred_handle that is not zero is registered; empty: none is.
  std::function<bool(const CredHandle&)> knows_cred = {};
};

// What becomes of a request.
struct RequestVerdict {
  bool close_channel = false;  // step 1 failed; nothing else is filled in
  DafsStatus status = DafsStatus::kOk;
  // Not OK before step 10: the answer is the bare header (EncodeResponseHeaderOnly).
  bool header_only = false;
  // The request had to carry a message_checksum; then the response does too (section 6).
  bool checksum_due = false;
  // For the answer: 1, but for ILLEGAL_PROT the version of 11.4.
  uint32_t response_version = kProtocolVersion;
  RequestHeader header;
  ByteOrder order = ByteOrder::kLittle;
  NameRule names = NameRule::kUtf8;
  const ProcInfo* proc = nullptr;
  // The filehandle and state id of the request before stay current: BACK is set and in its place.
  bool continues_chain = false;
  uint64_t chain = 0;  // ChainState::chain
};

// Steps 1 to 9, for the requests of a channel in the order they were received; one with BACK only
// after its predecessor has ended. Brings `chain` up to date for the request's flags and, if the
// request fails here, for its failure.
RequestVerdict CheckRequest(std::span<const std::byte> message, const RequestContext& context,
                            ChainState& chain);

// To be called when a request that passed CheckRequest has ended, in step 10 or later, with
// `status`: anything but OK breaks its chain, if that is still the present one.
void ChainMemberDone(const RequestVerdict& verdict, DafsStatus status, ChainState& chain);

// Step 10: decodes and checks the arguments, and for inline writes finds the data. kOk, or the
// status to answer (EncodeErrorResponse). Includes CHAIN_FORM for CHF_STATEID with a claim other
// than CLAIM_DELEGATE_CUR.
template <class Args>
DafsStatus CheckArgs(std::span<const std::byte> message, const RequestVerdict& verdict,
                     uint32_t inline_write_header_size, Args& args,
                     std::span<const std::byte>& data) {
  DafsStatus status = DecodeArgs(message, verdict.order, args, verdict.names);
  if (status == DafsStatus::kOk) status = CheckRules(args);
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
