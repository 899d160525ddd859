// One request and its answer, and what chains need to know about it: where a current filehandle
// and state id enter and leave. A chain is a span of calls.
// Spec: 4.3 (chaining); WIRE 8.3 (current filehandle and state id), 9.3.
//
// A call lives in the frame of the coroutine that makes it, and stays there until it has ended. Its
// arguments are encoded straight into the session's send buffer and its result is decoded straight
// from the receive buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/memory_use.h"
#include "client/state/opens.h"
#include "wire/codec/codec.h"
#include "wire/messages/chain.h"

namespace dafs::client {

// What one member of a chain leaves to the next.
struct Current {
  std::optional<wire::FileHandle> filehandle;
  std::optional<wire::StateId> state_id;
};

// Which request a call was when it was sent last: what the Response Cache knows it by (5.2.1).
struct Xid {
  wire::SessionId session_id;
  wire::ClientId client_id;  // of that session
  wire::AuthType auth{};     // how it was authenticated
  uint16_t stream_id = 0;
  uint16_t seq_number = 0;
  bool cached = false;  // the server keeps its response until we have it
};

class CallBase {
 public:
  virtual ~CallBase() = default;
  CallBase(const CallBase&) = delete;
  CallBase& operator=(const CallBase&) = delete;

  virtual const wire::ProcInfo& info() const = 0;
  wire::Proc proc() const { return info().number; }
  // Whether doing it twice is the same as doing it once, so that it may be issued again when its
  // answer was lost.
  virtual bool idempotent() const = 0;
  // Whether the server goes on with it behind its answer. Then it is issued again on another
  // session only: beside what was begun, nobody could tell when its memory is free.
  virtual bool outlives_answer() const { return false; }

  // For the session.
  virtual absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                        std::span<std::byte> out, bool checksum) = 0;
  virtual absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                              wire::DafsStatus status) = 0;
  // The state id among the arguments; null: none, or it comes from the member before.
  virtual wire::StateId* state_id_argument() = 0;
  // Of COPY_RANGE: that of the source.
  virtual wire::StateId* source_state_id_argument() { return nullptr; }
  // Of BATCH_SUBMIT, which has many: as NameOpen.
  virtual std::optional<wire::StateId> NameItems(const Opens&, const wire::ClientId&) {
    return std::nullopt;
  }
  // Each filehandle among the arguments that is used.
  virtual void VisitHandles(absl::FunctionRef<void(wire::FileHandle&)> visit) = 0;
  // Writes the current values into the arguments and clears the two flags below.
  virtual void TakeOver(const Current& current) = 0;
  // After success: what is current for the next member.
  virtual void PassOn(Current& current) const = 0;

  // Ready to be issued (again).
  void Reset() {
    sent = answered = damaged = false;
    status = wire::DafsStatus::kOk;
  }
  bool ok() const { return answered && status == wire::DafsStatus::kOk; }

  // DAFS_CHF_FH, DAFS_CHF_STATEID: take the value from the member before.
  bool chf_fh = false;
  bool chf_state_id = false;

  // Nobody waits for the answer: the request may leave with the next one, within 5 ms.
  bool can_wait = false;
  // More of the like may follow at once: it leaves with them when the loop turns next.
  bool leaves_with_turn = false;

  bool sent = false;      // the request was given to the transport
  bool answered = false;  // `status` is the server's
  bool damaged = false;   // an answer came with a wrong checksum and was thrown away
  Xid xid;                // once `sent`
  wire::DafsStatus status = wire::DafsStatus::kOk;
  // The open it is for, by the name that client/state/opens.h gave it; set when it is first issued.
  // What the arguments hold then is the server's present name for it.
  std::optional<wire::StateId> open;
  std::optional<wire::StateId> source_open;  // the same of the source's
  // Held while the server may touch the advertised buffer.
  const BufferLease* advertised = nullptr;
  MemoryUse* memory_use = nullptr;  // the same for memory of the application

 protected:
  CallBase() = default;
};

// Puts the server's present names for the opens that `call` is for into its arguments. Returns the
// one that the server does not know in the time of `client_id`; nullopt: it knows them all.
std::optional<wire::StateId> NameOpen(CallBase& call, const Opens& opens,
                                      const wire::ClientId& client_id);

// The procedures of a chain, for messages: "LOOKUP+GETATTR_INLINE".
std::string NamesOf(std::span<CallBase* const> chain);

// Whether a repetition of `proc` does no harm.
bool IsIdempotent(wire::Proc proc);

template <class ArgsType>
class Call : public CallBase {
 public:
  using Args = ArgsType;
  using Res = wire::ResOf<Args>;

  Args args;
  Res res;

  const wire::ProcInfo& info() const override {
    static constexpr const wire::ProcInfo& kInfo = wire::InfoOf(Args::kProc);
    return kInfo;
  }
  bool idempotent() const override {
    if constexpr (Args::kProc == wire::Proc::kOpen) {
      // GUARDED fails with EXIST the second time, a file without a name is another one. The others
      // give the same open again, since the owner is the same.
      if (args.claim_type == wire::OpenClaimType::kCreateUnlinked) return false;
      return args.open_type == wire::OpenType::kNoCreate ||
             args.createmode != wire::CreateMode::kGuarded;
    } else if constexpr (Args::kProc == wire::Proc::kAllocate) {
      // These two move what lies behind the range, once more each time.
      return args.mode != wire::AllocateMode::kCollapseRange &&
             args.mode != wire::AllocateMode::kInsertRange;
    } else {
      return IsIdempotent(Args::kProc);
    }
  }
  absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                std::span<std::byte> out, bool checksum) override {
    wire::EncodeOptions options;
    options.checksum = checksum;
    options.inline_data = inline_data();
    return wire::EncodeRequest(header, args, order, out, options);
  }
  absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                      wire::DafsStatus answer) override {
    if constexpr (Args::kProc == wire::Proc::kOpen) {
      return wire::DecodeRes(message, order, answer, res, args.claim_type);
    } else {
      return wire::DecodeRes(message, order, answer, res);
    }
  }
  wire::StateId* state_id_argument() override {
    return chf_state_id ? nullptr : wire::ChainStateId(args);
  }
  void VisitHandles(absl::FunctionRef<void(wire::FileHandle&)> visit) override {
    if constexpr (requires { args.sourcedir; }) visit(args.sourcedir);
    wire::FileHandle* const field = chf_fh ? nullptr : wire::ChainFileHandle(args);
    if (field != nullptr) visit(*field);
  }
  void TakeOver(const Current& current) override {
    if (chf_fh && current.filehandle.has_value()) {
      if (wire::FileHandle* field = wire::ChainFileHandle(args)) *field = *current.filehandle;
    }
    if (chf_state_id && current.state_id.has_value()) {
      if (wire::StateId* field = wire::ChainStateId(args)) *field = *current.state_id;
      open.reset();
    }
    chf_fh = chf_state_id = false;
  }
  void PassOn(Current& current) const override {
    constexpr const wire::ProcInfo& info = wire::InfoOf(Args::kProc);
    if constexpr (info.filehandle_after == wire::Current::kFromResult) {
      current.filehandle = wire::ResultFileHandle(res);
    } else if constexpr (info.filehandle_after == wire::Current::kTheOneUsed) {
      if (!chf_fh) current.filehandle = *wire::ChainFileHandle(const_cast<Args&>(args));
    }
    if constexpr (info.state_id_after == wire::Current::kFromResult) {
      current.state_id = res.state_id;
    } else if constexpr (info.state_id_after == wire::Current::kTheOneUsed) {
      if (!chf_state_id) {
        current.state_id = open.value_or(*wire::ChainStateId(const_cast<Args&>(args)));
      }
    }
  }

 protected:
  // WRITE_INLINE and APPEND_INLINE: the data.
  virtual wire::InlineData inline_data() const { return {}; }
};

}  // namespace dafs::client
