// One request as a procedure sees it, from the message that arrived to the response.
// Spec: WIRE 8.3 (current filehandle and state id), 9.2 steps 10 and 11, 9.3; draft 4.3.2, 6.1.3.
// Belongs to the session's thread. Another thread may use what the accessors return until the call
// is finished.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/functional/any_invocable.h"
#include "server/clients/credentials.h"
#include "server/session/owner_names.h"
#include "server/session/request.h"
#include "server/session/transfer/message_buffers.h"
#include "server/store/holdings/caller.h"
#include "wire/codec/codec.h"
#include "wire/messages/chain.h"
#include "wire/messages/direct_bytes.h"
#include "wire/rules/request_check.h"

namespace dafs::server {

class Pool;
class Session;

class Call {
 public:
  explicit Call(Session& session) : session_(session) { request_.call = this; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Session& session() { return session_; }
  const wire::RequestHeader& header() const { return request_.header(); }
  wire::ByteOrder order() const { return request_.verdict.order; }
  std::span<const std::byte> message() const { return request_.message; }

  // Step 10 of 9.2, and the substitutions of step 11: decodes the arguments and inserts the chain's
  // current filehandle and state id. Returns false on failure: the call is then answered and
  // destroyed.
  template <class Args>
  bool Decode(Args& args);
  // The inline data of WRITE_INLINE and APPEND_INLINE, valid after Decode; a part of message().
  std::span<const std::byte> data() const { return request_.data; }

  // The pool on which this call waits for its file system.
  Pool& pool();
  // Returns true if the export may hang. Then no store access of this call may run on the worker.
  bool may_hang() const { return request_.own_pool != nullptr; }

  // The user on whose behalf the call is executed.
  const Caller& caller() const { return request_.caller; }
  // Before a function of the store that modifies something: it may have to wait for clients. Its
  // end is that of the call. Returns the modification.
  Modification& BeginModification() {
    return request_.modification.emplace(session_, request_.caller);
  }
  Modification* modification() { return &*request_.modification; }  // requires that it has begun
  // The call goes on after the turn, or on a thread of the pool.
  void NotInTurn() { request_.caller.recent = nullptr; }
  // Makes the call leave access times unchanged.
  void KeepAtime() { request_.caller.keeps_atime = true; }

  // The buffer for the response: max_response_size bytes.
  std::span<std::byte> out() const;
  // Resources held until the response has been sent: RDMA sources and their credits.
  Outgoing& outgoing() { return *request_.outgoing; }

  // Answers the call and destroys it; the caller must not touch it afterwards. On success sets the
  // chain's current filehandle and state id as 9.1 specifies. If the result does not fit, the
  // status is TOOSMALL. May be called by the thread of pool() that executes the call.
  template <class Args, class Res>
  void Finish(wire::DafsStatus status, const Args& args, const Res& res,
              const wire::InlineData& inline_data = {});
  // The same for a failure without a result body.
  void FinishError(wire::DafsStatus status);

  // The session ended before the client's data arrived. Nothing was executed, so the Response Cache
  // must not report the request as executed (5.2.4).
  void CutShort() { request_.cut_short = true; }

  // Records the client memory that the request names. The response invalidates the first buffer if
  // the client requested it (wire/protocol/invalidation.h).
  void Names(std::span<const wire::DirectOpBuffer> buffers) {
    if (!buffers.empty()) request_.invalidates = buffers.front().buffer_handle;
  }

  // On the session's thread, with the call still owned by the caller: on a thread of the pool,
  // posts `work` to it.
  void OnSession(absl::AnyInvocable<void()> work) {
    if (request_.on_pool) return OnLoop(std::move(work));
    work();
  }

  // The results arrive after the response, so the Response Cache gets no entry (5.2.3).
  void NotRemembered() { request_.not_remembered = true; }
  // Owns the memory of the caller's group list.
  const std::shared_ptr<const Credential>& credential() const { return request_.credential; }

  // For responses that are built in place: returns the header to write (call it once); FinishBuilt
  // then ends the call.
  wire::ResponseHeader ResponseHeader(wire::DafsStatus status);
  template <class Args>
  void FinishBuilt(const Args& args, size_t response_bytes);
  // FETCH_RESPONSE: sends the stored response of another request. Its body is in out(), after the
  // header.
  void FinishStored(wire::DafsStatus status, size_t response_bytes);

 protected:
  ~Call() = default;

 private:
  friend class Requests;

  // From a thread of the pool: runs `work` on the session's thread, which owns the call from then
  // on.
  void OnLoop(absl::AnyInvocable<void()> work);
  // Answers with the status that steps 2 to 9 of 9.2 found.
  void FinishUnexecuted(wire::DafsStatus status);
  bool checksums() const;
  // Ends the modification, if there is one: what it changed may be promised again.
  void EndModification(wire::DafsStatus status);
  // Whether the attributes that the client wants with the response must still be read.
  bool WantsAttributes(wire::DafsStatus status) const;
  // Reads them. `other` may be null.
  void ReadAttributes(const wire::FileHandle& current, const wire::FileHandle* other);
  void ReadAttributes(const wire::FileHandle& file, wire::FileAttributes* attributes,
                      uint16_t* promise);
  // Appends them to the response. Returns its size.
  size_t AppendAttributes(size_t response_bytes);
  // For a call whose file system may hang: runs `work` on a thread of its pool.
  void OnPool(absl::AnyInvocable<void()> work);
  uint32_t inline_write_header_size() const;
  wire::DafsStatus NumberOwnersIn(wire::FileAttributes& attributes) const;
  template <class Args>
  wire::DafsStatus TakeFromChain(Args& args);
  template <class Args>
  void LeaveUsed(const Args& args);
  void Complete(wire::DafsStatus status, size_t response_bytes);

  Session& session_;
  Request request_;
};

template <class Args>
wire::DafsStatus Call::TakeFromChain(Args& args) {
  if ((header().chain_flags & wire::kChfFh) != 0) {
    wire::FileHandle* filehandle = wire::ChainFileHandle(args);
    if (filehandle == nullptr) return wire::DafsStatus::kChainForm;
    if (request_.chain == nullptr || !request_.chain->filehandle)
      return wire::DafsStatus::kNoFileHandle;
    *filehandle = *request_.chain->filehandle;
  }
  if ((header().chain_flags & wire::kChfStateId) != 0) {
    wire::StateId* state_id = wire::ChainStateId(args);
    if (state_id == nullptr) return wire::DafsStatus::kChainForm;
    if (request_.chain == nullptr || !request_.chain->state_id)
      return wire::DafsStatus::kBadStateId;
    *state_id = *request_.chain->state_id;
  }
  return wire::DafsStatus::kOk;
}

template <class Args>
bool Call::Decode(Args& args) {
  wire::DafsStatus status = wire::CheckArgs(request_.message, request_.verdict,
                                            inline_write_header_size(), args, request_.data);
  if (status == wire::DafsStatus::kOk) status = TakeFromChain(args);
  wire::FileAttributes* const attributes = AttributesIn(args);
  if (status == wire::DafsStatus::kOk && attributes != nullptr) {
    status = NumberOwnersIn(*attributes);
  }
  if (status == wire::DafsStatus::kOk) return true;
  FinishError(status);
  return false;
}

template <class Args>
void Call::LeaveUsed(const Args& args) {
  constexpr const wire::ProcInfo& kInfo = wire::InfoOf(Args::kProc);
  if constexpr (kInfo.filehandle_after == wire::Current::kTheOneUsed) {
    request_.chain->filehandle = *wire::ChainFileHandle(const_cast<Args&>(args));
  }
  if constexpr (kInfo.state_id_after == wire::Current::kTheOneUsed) {
    request_.chain->state_id = *wire::ChainStateId(const_cast<Args&>(args));
  }
}

// The filehandle that a request with these arguments and this result leaves current.
template <class Args, class Res>
const wire::FileHandle& CurrentAfter(const Args& args, const Res& res) {
  if constexpr (wire::InfoOf(Args::kProc).filehandle_after == wire::Current::kFromResult) {
    return wire::ResultFileHandle(res);
  } else {
    return *wire::ChainFileHandle(const_cast<Args&>(args));
  }
}

template <class Args, class Res>
void Call::Finish(wire::DafsStatus status, const Args& args, const Res& res,
                  const wire::InlineData& inline_data) {
  if constexpr (wire::MayCarryAttributes(wire::InfoOf(Args::kProc))) {
    if (WantsAttributes(status)) {
      if (may_hang() && !request_.on_pool) {
        return OnPool(
            [this, status, args, res, inline_data] { Finish(status, args, res, inline_data); });
      }
      ReadAttributes(CurrentAfter(args, res), wire::OtherFileHandle(args));
    }
  }
  if (request_.on_pool) {
    return OnLoop(
        [this, status, args, res, inline_data] { Finish(status, args, res, inline_data); });
  }
  constexpr const wire::ProcInfo& kInfo = wire::InfoOf(Args::kProc);
  wire::ResponseHeader header = ResponseHeader(status);
  wire::EncodeOptions options;
  options.checksum = checksums();
  options.inline_data = inline_data;
  if constexpr (Args::kProc == wire::Proc::kOpen) options.claim_type = args.claim_type;
  absl::StatusOr<size_t> size = wire::EncodeResponse(header, res, order(), out(), options);
  if (!size.ok()) {
    header.status = status = wire::DafsStatus::kTooSmall;
    header.spec_cond &= wire::kSpcondVoid | wire::kSpcondFailover;
    size = wire::EncodeErrorResponse(header, Args::kProc, order(), out(), options);
  } else if (request_.after.has_value()) {
    size = AppendAttributes(*size);
  }
  if (status == wire::DafsStatus::kOk) request_.direct_bytes = wire::DirectBytesOf(args, res);
  if (status == wire::DafsStatus::kOk && request_.chain != nullptr) {
    LeaveUsed(args);
    if constexpr (kInfo.filehandle_after == wire::Current::kFromResult) {
      request_.chain->filehandle = wire::ResultFileHandle(res);
    }
    if constexpr (kInfo.state_id_after == wire::Current::kFromResult) {
      request_.chain->state_id = wire::ResultStateId(res);
    }
  }
  Complete(status, size.ok() ? *size : 0);
}

template <class Args>
void Call::FinishBuilt(const Args& args, size_t response_bytes) {
  if (request_.chain != nullptr) LeaveUsed(args);
  Complete(wire::DafsStatus::kOk, response_bytes);
}

}  // namespace dafs::server
