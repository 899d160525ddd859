// Incoming requests of a session: checks them, orders them, begins them.
// Spec: 3.2.6, 4.3; WIRE 9.2.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/status_macros.h"
#include "server/session/back_control.h"
#include "server/session/session.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::Proc;

namespace {

// Responses to requests that arrived together leave together: sending is a third of the cost of a
// small request. A response waits for later ones at most this long, plus the time of the request
// then being executed.
constexpr absl::Duration kMostHeld = absl::Microseconds(100);

}  // namespace

bool Session::IsRemembered(const wire::RequestVerdict& request) {
  const wire::ProcInfo* info = request.proc;
  if (info == nullptr) return false;
  return wire::ModifiesState(info->category) ||
         (info->category == wire::Category::kSimple &&
          (request.header.chain_flags & wire::kChfSave) != 0);
}

void Session::OnReceive(Receive& receive, size_t size_bytes) {
  if (ending_) return;
  // EndIfSuperseded may not have reached this worker yet. A request served before it does could
  // acquire state that nothing releases any more.
  if (client_ != nullptr && client_->superseded()) {
    return End(absl::AbortedError("a new instance of this client has connected"));
  }
  receive.message_ = receive.buffer->memory().first(size_bytes);
  if (back_control_ != nullptr && TakeDirectiveAnswer(receive)) return;
  receive.verdict_ = Check(receive.message_);
  if (receive.verdict_.close_channel) {
    return End(
        absl::DataLossError(absl::StrCat("message of ", size_bytes, " bytes with a bad header")));
  }
  order_ = receive.verdict_.order;
  if (authenticated_) client_->Renew(dat::Loop::Now());
  receive.holds_stream_ = CheckStream(receive);
  receive.chain_ = chains_.ChainOf(receive.header().chain_flags);
  Enqueue(receive);
  RunReady();
}

wire::RequestVerdict Session::Check(std::span<const std::byte> message) {
  auto implements = [this](Proc proc) {
    return FindProcedure(*shared_.procedures, proc) != nullptr;
  };
  auto knows_cred = [this](const wire::CredHandle& handle) {
    // An untrusted client has registered none (3.1.1.1.2).
    return trusted_ && client_->credentials().Find(handle) != nullptr;
  };
  wire::RequestContext context{.implements = implements, .knows_cred = knows_cred};
  context.order = order_;
  context.bound_channel = bound_to_ != nullptr;
  context.has_session = context.bound_channel || !negotiated_.session_id.is_zero();
  context.checksum_due = (context.bound_channel ? *bound_to_ : *this).negotiated_.use_checksums;
  context.authenticated = context.bound_channel || authenticated_;
  context.granted_nreq = streams_.limit();
  context.names =
      extends(wire::kExtensionByteNames) ? wire::NameRule::kBytes : wire::NameRule::kUtf8;
  // StatusInChain finds broken chains, once the earlier members are done.
  chain_state_.broken = false;
  return wire::CheckRequest(message, context, chain_state_);
}

// Step 8 of 9.2 beyond the bound: the stream must be free and the sequence number the next one.
// Returns true if the call now occupies its stream.
bool Session::CheckStream(Call& call) {
  wire::RequestVerdict& verdict = call.verdict_;
  if (verdict.status == DafsStatus::kChksum) {
    streams_.Forget(verdict.header.stream_id);
    return false;
  }
  if (streams_.Begin(verdict.header.stream_id, verdict.header.seq_number)) return true;
  if (verdict.status == DafsStatus::kOk || verdict.status == DafsStatus::kNoCreds) {
    verdict.status = DafsStatus::kInval;
    verdict.header_only = true;
  }
  return false;
}

void Session::Enqueue(Call& call) {
  if (call.chain_ != nullptr) {
    if (call.chain_->running) return call.chain_->waiting.push_back(&call);
    call.chain_->running = true;
  }
  ready_.push_back(&call);
}

// Begins the ready calls, in order, while send buffers are free. This is a loop, so that a chain of
// any length needs no more stack than one call.
void Session::RunReady() {
  if (std::exchange(running_ready_, true)) return;
  while (!ready_.empty() && !ending_) {
    std::unique_ptr<Outgoing> outgoing = send_buffers_.Take();
    if (outgoing == nullptr) break;
    Call& call = *ready_.front();
    ready_.pop_front();
    call.outgoing_ = std::move(outgoing);
    // Poll flushes the held responses. Outside of Poll nothing would.
    if (polling_ && !ready_.empty()) {
      if (held_since_ == absl::InfiniteFuture()) held_since_ = dat::Loop::Now();
      holds_answers_ = true;
      Begin(call);
      holds_answers_ = false;
      if (dat::Loop::Now() - held_since_ >= kMostHeld) FlushAnswers();
    } else {
      Begin(call);
    }
  }
  running_ready_ = false;
}

void Session::FlushAnswers() {
  held_since_ = absl::InfiniteFuture();
  endpoint_->Flush();
}

namespace {

// Returns the FSHandle of the filehandle at `offset` of the request.
wire::FsHandle FsHandleAt(std::span<const std::byte> message, size_t offset) {
  wire::FsHandle fshandle;
  if (message.size() >= offset + fshandle.bytes.size()) {
    std::memcpy(fshandle.bytes.data(), message.data() + offset, fshandle.bytes.size());
  }
  return fshandle;
}

// The offset of a request's filehandle: OPEN has claim_type before it.
size_t FileHandleAt(Proc proc) { return wire::kHeaderSize + (proc == Proc::kOpen ? 8 : 0); }

bool HasTwoFileHandles(Proc proc) {
  return proc == Proc::kLink || proc == Proc::kRename || proc == Proc::kRename2 ||
         proc == Proc::kCopyRange;
}

}  // namespace

// A path that starts above the exports may lead into one that may hang.
Pool* Session::OwnPoolOfPath(const Call& call) {
  const auto pool_of = [&](wire::FileHandle& directory, const wire::Pathname& path) -> Pool* {
    if ((call.header().chain_flags & wire::kChfFh) != 0) directory = *call.chain_->filehandle;
    const std::optional<size_t> index = store().ExportThatMayHang(directory, path);
    return index ? &shared_.export_pools->Of(*index) : nullptr;
  };
  const auto decodes = [&](auto& args) {
    return wire::DecodeArgs(call.message(), call.order(), args, call.verdict_.names) ==
           DafsStatus::kOk;
  };
  if (call.header().procedure == Proc::kLookup) {
    wire::LookupArgs args;
    return decodes(args) ? pool_of(args.directory, args.path) : nullptr;
  }
  if (call.header().procedure == Proc::kOpen) {
    wire::OpenArgs args;
    return decodes(args) ? pool_of(args.claim_handle(), args.pathname) : nullptr;
  }
  return nullptr;
}

// Called before the arguments are decoded, because a procedure accesses the store right after that.
Pool* Session::OwnPool(const Call& call) {
  const wire::ProcInfo* info = call.verdict_.proc;
  if (info == nullptr || !info->chf_fh) return nullptr;  // names no file
  const bool chained = (call.header().chain_flags & wire::kChfFh) != 0;
  wire::FsHandle fshandle;
  if (!chained) {
    fshandle = FsHandleAt(call.message(), FileHandleAt(info->number));
  } else if (call.chain_ != nullptr && call.chain_->filehandle) {
    fshandle = call.chain_->filehandle->fshandle;
  }
  if (store().IsAboveWhatMayHang(fshandle)) return OwnPoolOfPath(call);
  Pool* pool = OwnPool(fshandle);
  if (pool == nullptr && HasTwoFileHandles(info->number)) {
    pool = OwnPool(FsHandleAt(call.message(), wire::kHeaderSize + wire::FileHandle::kWireSize));
  }
  return pool;
}

void Session::Begin(Call& call) {
  ++executing_;
  const DafsStatus status = StatusInChain(call.verdict_.status, call.chain_.get());
  if (status != DafsStatus::kOk) return call.FinishUnexecuted(status);
  if (call.header().procedure != Proc::kGetattrInline) recent_stats_.Clear();
  SetCaller(call);
  const Procedure& procedure = *FindProcedure(*shared_.procedures, call.header().procedure);
  // Only for calls that finish on this thread within Poll: Poll clears recent_stats_ at its end.
  const bool here = procedure.run != nullptr || call.header().procedure == Proc::kOpen;
  call.own_pool_ = OwnPool(call);
  if (call.own_pool_ != nullptr) {
    if (procedure.run == nullptr) {
      dat::Start(procedure.start(call));
      return;
    }
    call.on_pool_ = true;
    return call.own_pool_->Submit([&call, run = procedure.run] { run(call); });
  }
  if (polling_ && here) call.caller_.recent = &recent_stats_;
  if (procedure.run != nullptr) {
    procedure.run(call);
  } else {
    dat::Start(procedure.start(call));
  }
}

void Session::SetCaller(Call& call) {
  call.caller_ = Caller();
  call.caller_.peer = peer_;
  call.caller_.names = call.verdict_.names;
  call.caller_.keeps_atime = extends(wire::kExtensionKeepAtime);
  call.operation_.reset();
  // A batch is many operations; none of its writes is recorded (5.2.3).
  if (cache_ != nullptr && call.holds_stream_ && IsRemembered(call.verdict_) &&
      call.header().procedure != Proc::kBatchSubmit) {
    const MappedFile* synced =
        shared_.options->stable == Stable::kPower ? &cache_->file() : nullptr;
    call.operation_.emplace(cache_->slot(call.header().stream_id), synced,
                            &store().write_verifiers(), call.header().seq_number,
                            call.header().procedure);
    call.caller_.operation = &*call.operation_;
  }
  if (client_ == nullptr) return;
  call.caller_.client_id = client_->client_id();
  // A client owns the name that it sends only after it was confirmed, and Grace identifies clients
  // by name.
  if (place_.admitted) call.caller_.client_name = client_->client_id_string();
  call.caller_.holdings = client_->holdings();
  if (call.header().cred_handle.is_zero()) return;
  call.credential_ = client_->credentials().Find(call.header().cred_handle);
  if (call.credential_ == nullptr) return;  // released since the check: the anonymous user
  call.caller_.uid = call.credential_->uid;
  call.caller_.gid = call.credential_->gid;
  call.caller_.groups = call.credential_->groups;
}

}  // namespace dafs::server
