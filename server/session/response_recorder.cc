#include "server/session/response_recorder.h"

#include "runtime/loop/loop.h"
#include "server/store/durable/write_verifier.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

bool IsRecorded(const wire::RequestVerdict& verdict) {
  const wire::ProcInfo* info = verdict.proc;
  if (info == nullptr) return false;
  return wire::ModifiesState(info->category) ||
         (info->category == wire::Category::kSimple &&
          (verdict.header.chain_flags & wire::kChfSave) != 0);
}

}  // namespace

bool ResponseRecorder::Open(const wire::SessionId& session_id, wire::ByteOrder order,
                            const CacheOwner& owner, uint32_t streams) {
  cache_ = responses_.Create(session_id, order, owner, streams);
  return cache_ != nullptr;
}

void ResponseRecorder::SetPrincipal(const Principal& principal) {
  if (cache_ != nullptr) cache_->SetPrincipal(principal);
}

void ResponseRecorder::Begin(Request& request) {
  request.operation.reset();
  // A batch is many operations; none of its writes is recorded (5.2.3).
  if (cache_ == nullptr || !request.holds_stream || !IsRecorded(request.verdict) ||
      request.header().procedure == wire::Proc::kBatchSubmit) {
    return;
  }
  const MappedFile* synced = stable_ == Stable::kPower ? &cache_->file() : nullptr;
  request.operation.emplace(cache_->slot(request.header().stream_id), synced,
                            &store_.write_verifiers(), request.header().seq_number,
                            request.header().procedure);
  request.caller.operation = &*request.operation;
}

void ResponseRecorder::Record(const Request& request, DafsStatus status,
                              std::span<const std::byte> response) {
  if (cache_ == nullptr || !request.holds_stream || request.cut_short) return;
  const wire::RequestHeader& header = request.header();
  if (!IsRecorded(request.verdict) || request.not_remembered) {
    return cache_->Passed(header.stream_id, header.seq_number);
  }
  switch (status) {
    // Statuses about a cache are not stored (R49).
    case DafsStatus::kNoXidMatch:
    case DafsStatus::kUnknownSession:
    case DafsStatus::kBadSession:
      return;
    default:
      if (response.size() < wire::kHeaderSize) return;
      cache_->Answer(header, status, response.subspan(wire::kHeaderSize));
  }
  KillPoint(KillStep::kRecorded, header.procedure);
}

void ResponseRecorder::End(bool keep) {
  if (cache_ != nullptr) responses_.Ended(*cache_, keep, Loop::Now());
}

}  // namespace dafs::server
