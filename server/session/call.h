// One request, from the message that arrived to the response that leaves: what a procedure sees.
// Spec: WIRE 8.3 (current filehandle and state id), 9.2 steps 10 and 11, 9.3; draft 4.3.2, 6.1.3.
// Belongs to the session's thread; another thread may be given what its accessors return, as long
// as the call is not finished.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "absl/functional/any_invocable.h"
#include "server/clients/credentials.h"
#include "server/session/chain.h"
#include "server/session/message_buffers.h"
#include "server/store/durable/journal.h"
#include "server/store/store.h"
#include "wire/codec/codec.h"
#include "wire/messages/chain.h"
#include "wire/rules/request_check.h"

namespace dafs::server {

class Pool;
class Session;

class Call {
 public:
  explicit Call(Session& session) : session_(session) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Session& session() { return session_; }
  const wire::RequestHeader& header() const { return verdict_.header; }
  wire::ByteOrder order() const { return verdict_.order; }
  std::span<const std::byte> message() const { return message_; }

  // Step 10 of 9.2, and the substitutions of step 11: decodes the arguments and puts the chain's
  // current filehandle and state id in their place. False if that failed: the call is then
  // answered, and gone.
  template <class Args>
  bool Decode(Args& args);
  // The inline data of WRITE_INLINE and APPEND_INLINE, after Decode; lies in message().
  std::span<const std::byte> data() const { return data_; }

  // Where it waits for its file system.
  Pool& pool();
  // Its export may hang: nothing of it that touches the store runs on the worker.
  bool may_hang() const { return own_pool_ != nullptr; }

  // On whose behalf it is executed.
  const Caller& caller() const { return caller_; }
  // It moves no access time.
  void KeepAtime() { caller_.keeps_atime = true; }

  // Where the response is built: max_response_size bytes.
  std::span<std::byte> out() const;
  // What stays until the response is sent: RDMA sources and their credits.
  Outgoing& outgoing() { return *outgoing_; }

  // Answers the call, which is gone afterwards: nothing may touch it any more. On success the
  // chain's current filehandle and state id become what 9.1 says. A result that does not fit is
  // answered TOOSMALL.
  template <class Args, class Res>
  void Finish(wire::DafsStatus status, const Args& args, const Res& res,
              const wire::InlineData& inline_data = {});
  // The same for a failure without a result of its own.
  void FinishError(wire::DafsStatus status);

  // The session ended before the client's data had come: nothing was executed, and whoever asks
  // the Response Cache must not be told that it was (5.2.4).
  void CutShort() { cut_short_ = true; }

  // The memory that it names, of which the first buffer is invalidated with the response where the
  // client asked for that (wire/protocol/invalidation.h).
  void Names(std::span<const wire::DirectOpBuffer> buffers) {
    if (!buffers.empty()) invalidate_ = buffers.front().buffer_handle;
  }

  // Its results come later than its response: the Response Cache has no entry of it (5.2.3).
  void NotRemembered() { passes_ = true; }
  // What the caller's groups lie in.
  const std::shared_ptr<const Credential>& credential() const { return credential_; }

  // For responses that are built in place: the header to write (once per call), and the end.
  wire::ResponseHeader ResponseHeader(wire::DafsStatus status);
  template <class Args>
  void FinishBuilt(const Args& args, size_t response_bytes);
  // The response of another request, that is in out() from behind the header on: FETCH_RESPONSE.
  void FinishStored(wire::DafsStatus status, size_t response_bytes);

 protected:
  ~Call() = default;

 private:
  friend class Session;

  // From a thread of the pool: `work` on the session's thread, which has the call from then on.
  void OnLoop(absl::AnyInvocable<void()> work);
  // What steps 2 to 9 of 9.2 found.
  void FinishUnexecuted(wire::DafsStatus status);
  bool checksums() const;
  uint32_t inline_write_header_size() const;
  template <class Args>
  wire::DafsStatus TakeFromChain(Args& args);
  template <class Args>
  void LeaveUsed(const Args& args);
  void Complete(wire::DafsStatus status, size_t response_bytes);

  Session& session_;
  wire::RequestVerdict verdict_;
  std::span<const std::byte> message_;
  std::span<const std::byte> data_;
  std::shared_ptr<Chain> chain_;
  std::shared_ptr<const Credential> credential_;  // null: the session's default
  Caller caller_;
  std::optional<Operation> operation_;  // where a modification is recorded
  std::unique_ptr<Outgoing> outgoing_;
  Pool* own_pool_ = nullptr;  // Session::OwnPool
  bool on_pool_ = false;      // a thread of that pool executes it; it is answered on the loop
  bool holds_stream_ = false;
  bool cut_short_ = false;
  bool passes_ = false;
  std::optional<uint32_t> invalidate_;
};

template <class Args>
wire::DafsStatus Call::TakeFromChain(Args& args) {
  if ((header().chain_flags & wire::kChfFh) != 0) {
    wire::FileHandle* filehandle = wire::ChainFileHandle(args);
    if (filehandle == nullptr) return wire::DafsStatus::kChainForm;
    if (chain_ == nullptr || !chain_->filehandle) return wire::DafsStatus::kNoFileHandle;
    *filehandle = *chain_->filehandle;
  }
  if ((header().chain_flags & wire::kChfStateId) != 0) {
    wire::StateId* state_id = wire::ChainStateId(args);
    if (state_id == nullptr) return wire::DafsStatus::kChainForm;
    if (chain_ == nullptr || !chain_->state_id) return wire::DafsStatus::kBadStateId;
    *state_id = *chain_->state_id;
  }
  return wire::DafsStatus::kOk;
}

template <class Args>
bool Call::Decode(Args& args) {
  wire::DafsStatus status =
      wire::CheckArgs(message_, verdict_, inline_write_header_size(), args, data_);
  if (status == wire::DafsStatus::kOk) status = TakeFromChain(args);
  if (status == wire::DafsStatus::kOk) return true;
  FinishError(status);
  return false;
}

template <class Args>
void Call::LeaveUsed(const Args& args) {
  constexpr const wire::ProcInfo& kInfo = wire::InfoOf(Args::kProc);
  if constexpr (kInfo.filehandle_after == wire::Current::kTheOneUsed) {
    chain_->filehandle = *wire::ChainFileHandle(const_cast<Args&>(args));
  }
  if constexpr (kInfo.state_id_after == wire::Current::kTheOneUsed) {
    chain_->state_id = *wire::ChainStateId(const_cast<Args&>(args));
  }
}

template <class Args, class Res>
void Call::Finish(wire::DafsStatus status, const Args& args, const Res& res,
                  const wire::InlineData& inline_data) {
  if (on_pool_) {
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
    size = wire::EncodeErrorResponse(header, Args::kProc, order(), out(), options);
  }
  if (status == wire::DafsStatus::kOk && chain_ != nullptr) {
    LeaveUsed(args);
    if constexpr (kInfo.filehandle_after == wire::Current::kFromResult) {
      chain_->filehandle = wire::ResultFileHandle(res);
    }
    if constexpr (kInfo.state_id_after == wire::Current::kFromResult) {
      chain_->state_id = res.state_id;
    }
  }
  Complete(status, size.ok() ? *size : 0);
}

template <class Args>
void Call::FinishBuilt(const Args& args, size_t response_bytes) {
  if (chain_ != nullptr) LeaveUsed(args);
  Complete(wire::DafsStatus::kOk, response_bytes);
}

}  // namespace dafs::server
