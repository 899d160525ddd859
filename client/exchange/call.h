// One request and its response, and what a chain needs to know about it: where a current filehandle
// and state id enter and leave. A chain is a span of calls.
// Spec: 4.3 (chaining); WIRE 8.3 (current filehandle and state id), 9.3.
//
// A call lives in the frame of the coroutine that makes it, until it has ended. Arguments are
// encoded directly into the session's send buffer, and the result is decoded directly from the
// receive buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/memory/buffer_pool.h"
#include "client/memory/memory_use.h"
#include "client/state/opens.h"
#include "wire/codec/codec.h"
#include "wire/messages/chain.h"
#include "wire/messages/direct_bytes.h"

namespace dafs::client {

// The maximum number of chain members.
inline constexpr size_t kMaxChain = 8;

// The current filehandle and state id that a chain member leaves for the next one.
struct Current {
  std::optional<wire::FileHandle> filehandle;
  std::optional<wire::StateId> state_id;
};

// Identifies the latest request of a call. The Response Cache uses this key (5.2.1).
struct Xid {
  wire::SessionId session_id;
  wire::ClientId client_id;  // of that session
  wire::AuthType auth{};     // its authentication method
  uint16_t stream_id = 0;
  uint16_t seq_number = 0;
  bool cached = false;  // the server keeps the response until the client has it
};

class InFlightOperation;
template <class ArgsType>
class Call;

class CallBase {
 public:
  virtual ~CallBase() = default;
  CallBase(const CallBase&) = delete;
  CallBase& operator=(const CallBase&) = delete;

  virtual const wire::ProcInfo& info() const = 0;
  wire::Proc proc() const { return info().number; }
  // Whether executing it twice equals executing it once. If so, it may be issued again after its
  // response was lost.
  virtual bool idempotent() const = 0;
  // Whether the server still works on it after its response. Such a call is issued again only on
  // another session. On the same session the client cannot know when the first execution stops
  // using the memory.
  virtual bool outlives_answer() const { return false; }

  // For use by the session.
  virtual absl::StatusOr<size_t> Encode(const wire::RequestHeader& header, wire::ByteOrder order,
                                        std::span<std::byte> out, bool checksum) = 0;
  virtual absl::Status Decode(std::span<const std::byte> message, wire::ByteOrder order,
                              wire::DafsStatus status) = 0;
  // The state id in the arguments. Null: there is none, or the member before supplies it.
  virtual wire::StateId* state_id_argument() = 0;
  // COPY_RANGE: the state id of the source.
  virtual wire::StateId* source_state_id_argument() { return nullptr; }
  // BATCH_SUBMIT, which has many state ids: does what NameOpen does.
  virtual std::optional<wire::StateId> NameItems(const Opens&, const wire::ClientId&) {
    return std::nullopt;
  }
  // The owner in the arguments; empty: there is none.
  virtual std::string_view owner_argument() const = 0;
  // The attributes of a file in the arguments, or in the result; null: there are none. Those of
  // READDIR are not decoded with the result.
  virtual wire::FileAttributes* argument_attributes() { return nullptr; }
  virtual wire::FileAttributes* result_attributes() { return nullptr; }
  // Visits each filehandle in the arguments that the call uses.
  virtual void VisitHandles(absl::FunctionRef<void(wire::FileHandle&)> visit) = 0;
  // Writes the current values into the arguments and clears the two flags below.
  virtual void TakeOver(const Current& current) = 0;
  // After success: updates `current` for the next member.
  virtual void PassOn(Current& current) const = 0;

  // The filehandle in the arguments that the procedure leaves current; null: there is none, or the
  // member before supplies it.
  virtual const wire::FileHandle* used_filehandle() const = 0;
  // wire::OtherFileHandle of the arguments.
  virtual const wire::FileHandle* other_filehandle() const = 0;

  // Prepares the call to be issued, or issued again.
  void Reset() {
    sent = answered = damaged = left = was_answered = false;
    current_attributes = other_attributes = nullptr;
    status = wire::DafsStatus::kOk;
    spec_cond = 0;
    direct_bytes = {};
    queued = took = absl::ZeroDuration();
  }
  bool ok() const { return answered && status == wire::DafsStatus::kOk; }
  // Whether it was sent and its response is missing: the server may have executed it.
  bool is_out() const { return sent && !answered; }

  // DAFS_CHF_FH, DAFS_CHF_STATEID: the member before supplies the value.
  bool chf_fh = false;
  bool chf_state_id = false;

  // Nothing waits for the response. The request may be delayed up to 5 ms to share a send.
  bool can_wait = false;
  // Similar requests may follow at once. They are sent together when the loop turns next.
  bool leaves_with_turn = false;

  // The GETATTRs that are not sent, because the response to this call carries their results
  // (client/exchange/attached.h).
  Call<wire::GetattrInlineArgs>* current_attributes = nullptr;
  Call<wire::GetattrInlineArgs>* other_attributes = nullptr;

  bool sent = false;      // the request was given to the transport
  bool answered = false;  // `status` is the server's
  bool damaged = false;   // the response had a bad checksum and was dropped
  // It was sent by a process that was killed (client/exchange/in_flight.h).
  bool left = false;
  bool was_answered = false;  // `left`, and that process had its response
  Xid xid;                    // once `sent`
  wire::DafsStatus status = wire::DafsStatus::kOk;
  // Promises of the response (client/state/promises.h): sequence() before the request was sent,
  // and the bits of the response; 0 if the result was fetched from a Response Cache.
  uint64_t asked = 0;
  uint16_t spec_cond = 0;
  wire::DirectBytes direct_bytes;  // once answered with OK
  absl::Duration queued;           // its wait for a slot; of the first call of a chain only
  absl::Duration took;             // from its post to its response
  // The open that it uses, under the name that client/state/opens.h gave it. Set when the call is
  // first issued. From then on the arguments hold the server's present name of the open.
  std::optional<wire::StateId> open;
  std::optional<wire::StateId> source_open;  // the same for the source of a copy
  // Where it is recorded for the case that this process is killed; null: nowhere.
  InFlightOperation* in_flight = nullptr;
  uint8_t in_flight_record = 0;  // its place in that operation
  // Pinned while the server may access the advertised buffer.
  const BufferLease* advertised = nullptr;
  MemoryUse* memory_use = nullptr;  // the same for application memory

 protected:
  CallBase() = default;
};

// Puts the server's present state ids of the opens into the arguments of `call`. Returns an open
// that the server does not know under `client_id`; nullopt if it knows all.
std::optional<wire::StateId> NameOpen(CallBase& call, const Opens& opens,
                                      const wire::ClientId& client_id);

// The procedures of a chain, for messages: "LOOKUP+GETATTR_INLINE".
std::string NamesOf(std::span<CallBase* const> chain);

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
      // GUARDED fails with EXIST the second time. Creating a file without a name makes a second
      // file. The other modes return the same open, since the owner is the same.
      if (args.claim_type == wire::OpenClaimType::kCreateUnlinked) return false;
      return args.open_type == wire::OpenType::kNoCreate ||
             args.createmode != wire::CreateMode::kGuarded;
    } else if constexpr (Args::kProc == wire::Proc::kAllocate) {
      // These two shift the data after the range, each time they are executed.
      return args.mode != wire::AllocateMode::kCollapseRange &&
             args.mode != wire::AllocateMode::kInsertRange;
    } else {
      return wire::InfoOf(Args::kProc).idempotent;
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
      absl::Status decoded = wire::DecodeRes(message, order, answer, res);
      if (answer == wire::DafsStatus::kOk) direct_bytes = wire::DirectBytesOf(args, res);
      return decoded;
    }
  }
  wire::StateId* state_id_argument() override {
    return chf_state_id ? nullptr : wire::ChainStateId(args);
  }
  std::string_view owner_argument() const override {
    if constexpr (requires { args.owner; }) {
      return args.owner;
    } else {
      return {};
    }
  }
  wire::FileAttributes* argument_attributes() override {
    if constexpr (requires { args.obj_attributes; }) {
      return IfOfFile(args.obj_attributes);
    } else if constexpr (requires { args.createattrs; }) {
      return &args.createattrs;
    } else if constexpr (requires { args.attr; }) {
      return IfOfFile(args.attr);
    } else {
      return nullptr;
    }
  }
  wire::FileAttributes* result_attributes() override {
    if constexpr (requires { res.obj_attributes; }) {
      return IfOfFile(res.obj_attributes);
    } else {
      return nullptr;
    }
  }
  void VisitHandles(absl::FunctionRef<void(wire::FileHandle&)> visit) override {
    if constexpr (requires { args.sourcedir; }) visit(args.sourcedir);
    wire::FileHandle* const field = chf_fh ? nullptr : wire::ChainFileHandle(args);
    if (field != nullptr) visit(*field);
  }
  const wire::FileHandle* used_filehandle() const override {
    if constexpr (wire::InfoOf(Args::kProc).filehandle_after == wire::Current::kTheOneUsed) {
      return chf_fh ? nullptr : wire::ChainFileHandle(const_cast<Args&>(args));
    } else {
      return nullptr;
    }
  }
  const wire::FileHandle* other_filehandle() const override {
    // The member before supplies it.
    const bool replaced =
        chf_fh && wire::OtherFileHandle(args) == wire::ChainFileHandle(const_cast<Args&>(args));
    return replaced ? nullptr : wire::OtherFileHandle(args);
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
  // The data of WRITE_INLINE and APPEND_INLINE.
  virtual wire::InlineData inline_data() const { return {}; }

 private:
  static wire::FileAttributes* IfOfFile(wire::FileAttributes& attributes) { return &attributes; }
  // Attributes of a file system, or where direct data lie.
  template <class Other>
  static wire::FileAttributes* IfOfFile(Other&) {
    return nullptr;
  }
};

}  // namespace dafs::client
