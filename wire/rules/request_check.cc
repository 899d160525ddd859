#include "wire/rules/request_check.h"

#include "wire/codec/checksum.h"

namespace dafs::wire {
namespace {

bool AllowedUnauthenticated(Proc proc) {
  return proc == Proc::kClientAuth || proc == Proc::kSecinfo || proc == Proc::kDisconnect;
}

// Steps 2 to 6 of 9.2.
DafsStatus CheckBeforeChain(std::span<const std::byte> message, const RequestContext& context,
                            const RequestVerdict& verdict) {
  const RequestHeader& header = verdict.header;
  const Proc proc = header.procedure;
  if (verdict.checksum_due && MessageChecksum(message, verdict.order) != header.message_checksum) {
    return DafsStatus::kChksum;
  }
  if (header.protocol_version != kProtocolVersion) return DafsStatus::kIllegalProt;
  if (!context.back_control) {
    const bool rebinding = context.bound_channel && proc == Proc::kConnectBind;
    if (IsConnect(proc) == context.has_session && !rebinding) return DafsStatus::kIllegalState;
    if (context.has_session && !context.authenticated && !AllowedUnauthenticated(proc) &&
        !rebinding) {
      return DafsStatus::kNotAuthenticated;
    }
    if (context.bound_channel && !rebinding) return DafsStatus::kNotSupp;
  }
  const Direction due = context.back_control ? Direction::kToClient : Direction::kToServer;
  if (verdict.proc == nullptr || verdict.proc->direction != due) return DafsStatus::kNotSupp;
  if (context.implements && !context.implements(proc)) return DafsStatus::kNotSupp;
  return DafsStatus::kOk;
}

// Whether `flags` break the rules of 8.1. `chain` is still the state of the previous request.
bool ChainFormWrong(uint16_t flags, const ProcInfo& proc, const ChainState& chain,
                    bool attributes_after) {
  if (attributes_after && MayCarryAttributes(proc)) {
    flags &= static_cast<uint16_t>(~kChfAnyAttributes);
  }
  const bool forw = (flags & kChfForw) != 0;
  const bool back = (flags & kChfBack) != 0;
  if ((flags & ~kChfAll) != 0) return true;
  if (!proc.chainable() && flags != 0) return true;
  if (back != chain.forw) return true;
  if ((flags & kChfSave) != 0 && (proc.category != Category::kSimple || !forw)) return true;
  if ((flags & kChfFh) != 0 && (!back || !proc.chf_fh)) return true;
  if ((flags & kChfStateId) != 0 && (!back || !proc.chf_state_id)) return true;
  // R82.
  return back && chain.bulk_fetch && proc.category == Category::kFsStateModifying;
}

}  // namespace

bool IsConnect(Proc proc) {
  return proc == Proc::kClientConnect || proc == Proc::kClientConnectAuth ||
         proc == Proc::kConnectBind;
}

RequestVerdict CheckRequest(std::span<const std::byte> message, const RequestContext& context,
                            ChainState& chain) {
  RequestVerdict verdict;
  const auto decoded = DecodeRequestHeader(message, context.order);
  if (!decoded.ok()) {
    verdict.close_channel = true;
    return verdict;
  }
  verdict.header = decoded->header;
  verdict.order = decoded->order;
  verdict.names = context.names;
  verdict.proc = FindProc(verdict.header.procedure);
  // A connect request has no checksum, except a CONNECT_BIND that renews.
  const bool renews = context.bound_channel && verdict.header.procedure == Proc::kConnectBind;
  const bool connects = !context.back_control && !renews && IsConnect(verdict.header.procedure);
  verdict.checksum_due = context.checksum_due && !connects;
  verdict.status = CheckBeforeChain(message, context, verdict);
  if (verdict.status == DafsStatus::kIllegalProt && verdict.header.protocol_version == 0) {
    verdict.response_version = 0;  // R54: one lower, although that version does not exist
  }

  // A request is a member of its chain, by its flags, whichever step it fails at.
  const uint16_t flags = verdict.header.chain_flags;
  const bool form_wrong = verdict.status == DafsStatus::kOk &&
                          ChainFormWrong(flags, *verdict.proc, chain, context.attributes_after);
  verdict.continues_chain = chain.forw && (flags & kChfBack) != 0;
  if (!verdict.continues_chain) chain = {};
  if (verdict.status == DafsStatus::kOk) {
    if (form_wrong) {
      verdict.status = DafsStatus::kChainForm;
    } else if (chain.broken) {
      verdict.status = DafsStatus::kChainBroken;
    } else if (verdict.header.stream_id >= context.granted_nreq) {
      verdict.status = DafsStatus::kInval;
    } else if (!verdict.header.cred_handle.is_zero() &&
               (!context.knows_cred || !context.knows_cred(verdict.header.cred_handle))) {
      verdict.status = DafsStatus::kNoCreds;
    }
  }
  chain.forw = (flags & kChfForw) != 0;
  if (verdict.proc != nullptr && verdict.proc->category == Category::kBulkFetch) {
    chain.bulk_fetch = true;
  }
  verdict.header_only = verdict.status != DafsStatus::kOk;
  if (verdict.header_only) chain.broken = true;
  return verdict;
}

}  // namespace dafs::wire
