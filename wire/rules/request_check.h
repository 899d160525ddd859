// Steps 1 to 10 of a responder's checks of a request. Spec: WIRE 9.2 (R45), 8.1, 8.2, 11.4. The
// caller passes in the relevant state of the server. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "wire/codec/codec.h"
#include "wire/messages/chain.h"
#include "wire/protocol/header.h"
#include "wire/rules/argument_rules.h"

namespace dafs::wire {

// Whether `proc` is one of the connect requests, which carry no message_checksum (section 6).
bool IsConnect(Proc proc);

// The position in a chain. Each channel keeps it from request to request. Spec: WIRE 8.1, 8.2.
struct ChainState {
  bool forw = false;        // the previous request had FORW
  bool broken = false;      // a member of the current chain has failed
  bool bulk_fetch = false;  // the current chain contains a bulk fetch
};

// The responder's state of the channel on which a request arrived.
struct RequestContext {
  std::optional<ByteOrder> order = std::nullopt;  // the session's; nullopt before the first message
  bool checksum_due = false;   // a message_checksum is required (the table of section 6)
  bool has_session = false;    // the channel belongs to a session
  bool bound_channel = false;  // an optional channel: CONNECT_BIND may be repeated
  bool authenticated = false;
  bool back_control = false;         // the responder is the client, on the Back-control Channel
  uint32_t granted_nreq = 1;         // stream_id must be less than this
  NameRule names = NameRule::kUtf8;  // of the session
  bool attributes_after = false;     // kExtensionAttributesAfter was granted
  // Whether the responder supports `proc`; empty: it supports every procedure in the table.
  std::function<bool(Proc)> implements = {};
  // Whether a nonzero cred_handle is registered; empty: none is.
  std::function<bool(const CredHandle&)> knows_cred = {};
};

// The result of the checks.
struct RequestVerdict {
  bool close_channel = false;  // step 1 failed; the other fields are not set
  DafsStatus status = DafsStatus::kOk;
  // Not OK before step 10: the response is a bare header (EncodeResponseHeaderOnly).
  bool header_only = false;
  // The request required a message_checksum; then so does the response (section 6).
  bool checksum_due = false;
  // For the response: 1, or after ILLEGAL_PROT the version of 11.4.
  uint32_t response_version = kProtocolVersion;
  RequestHeader header;
  ByteOrder order = ByteOrder::kLittle;
  NameRule names = NameRule::kUtf8;
  const ProcInfo* proc = nullptr;
  // The previous request's filehandle and state id stay current: BACK is set and allowed.
  bool continues_chain = false;
};

// Steps 1 to 9. Call it for the requests of a channel in the order received. Call it for a request
// with BACK only after the previous request has ended. Updates `chain` for the request's flags and,
// if the request fails here, for its failure. If a request fails later, the caller sets
// `chain.broken`, or applies CHAIN_BROKEN itself.
RequestVerdict CheckRequest(std::span<const std::byte> message, const RequestContext& context,
                            ChainState& chain);

// Step 10: decodes and checks the arguments, and finds the data of inline writes. Returns kOk, or
// the status for the response (EncodeErrorResponse). This includes CHAIN_FORM for CHF_STATEID with
// a claim other than CLAIM_DELEGATE_CUR.
template <class Args>
DafsStatus CheckArgs(std::span<const std::byte> message, const RequestVerdict& verdict,
                     uint32_t inline_write_header_size, Args& args,
                     std::span<const std::byte>& data) {
  DafsStatus status = DecodeArgs(message, verdict.order, args, verdict.names);
  if (status == DafsStatus::kOk) status = CheckRules(args);
  if (status != DafsStatus::kOk) return status;
  if constexpr (requires { args.write_padded; }) {
    status = FindInlineData(message, args, inline_write_header_size, data);
  }
  if constexpr (InfoOf(Args::kProc).chf_state_id) {
    if ((verdict.header.chain_flags & kChfStateId) != 0 && ChainStateId(args) == nullptr) {
      status = DafsStatus::kChainForm;
    }
  }
  return status;
}

}  // namespace dafs::wire
