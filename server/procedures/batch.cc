// BATCH_SUBMIT, with all results in the response or on the Back-control Channel; and HURRY_UP.
// Spec: 6.5.5, 6.5.16; WIRE R59, R78, R88.
#include <algorithm>
#include <utility>
#include <vector>

#include "server/procedures/batch_io.h"
#include "server/procedures/batches.h"
#include "server/procedures/handler.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

// Message offset of the completions, and the size of one. WIRE 4.2, 4.3, 9.4 BATCH_SUBMIT.
constexpr size_t kCompletions = 48;
constexpr size_t kCompletionSize = 24;

// Checked before execution, because an error status means that nothing was begun (6.5.5).
bool CompletionsFit(const Call& call, size_t count) {
  return kCompletions + 8 + count * kCompletionSize <= call.out().size();
}

// A synchronous batch in execution; lives in the frame of its procedure.
struct InProgress {
  Call& call;
  const std::vector<wire::RwRequest>& requests;
  std::vector<wire::CompletionNotification>& completions;
  size_t next = 0;
  uint32_t lanes = 0;
  Pending<bool> end = {};
};

// Executes one request after the other, concurrently with other lanes.
Task<void> Lane(InProgress& batch) {
  while (batch.next < batch.requests.size()) {
    const size_t index = batch.next++;
    Task<bool> executing =
        ExecuteItem(batch.call.session(), batch.call.caller(), batch.requests[index],
                    WriteChannel::kOperation, &batch.completions[index]);
    const bool came = co_await executing;
    if (!came) batch.call.CutShort();
  }
  if (--batch.lanes == 0) batch.end.Set(true);
}

// Executes in any order (6.5.5); the completions have the order of the requests.
Task<void> ExecuteAll(Call& call, const std::vector<wire::RwRequest>& requests,
                      std::vector<wire::CompletionNotification>& completions) {
  completions.resize(requests.size());
  if (requests.empty()) co_return;
  InProgress batch{call, requests, completions};
  const uint32_t lanes = static_cast<uint32_t>(std::min<size_t>(requests.size(), kBatchLanes));
  batch.lanes = lanes;
  for (uint32_t i = 0; i < lanes; ++i) Start(Lane(batch));
  co_await batch.end;
}

DafsStatus MayTake(Session& session, const wire::BatchSubmitArgs& args) {
  if (args.requests.empty()) return DafsStatus::kOk;  // only sets the number of completions
  if (session.channels().back() == nullptr) return DafsStatus::kBackChannelUnusable;
  return Batches::Of(session).MayTake(args);
}

Task<void> BatchSubmit(Call& call) {
  wire::BatchSubmitArgs args;
  if (!call.Decode(args)) co_return;
  wire::BatchSubmitRes res;
  Session& session = call.session();
  Batches& batches = Batches::Of(session);
  if (!args.synchronous) {
    call.NotRemembered();
    const DafsStatus status = MayTake(session, args);
    if (status == DafsStatus::kOk) {
      batches.Want(args.num_completions);
      batches.Take(call, args.usec_window, std::move(args.requests));
    }
    call.Finish(status, args, res);
    if (status == DafsStatus::kOk) batches.Begin();
    co_return;
  }
  DafsStatus status = DafsStatus::kTooSmall;
  if (CompletionsFit(call, args.requests.size())) {
    status = batches.BeginSynchronous(args.requests);
  }
  if (status != DafsStatus::kOk) {
    call.FinishError(status);
    co_return;
  }
  Task<void> executing = ExecuteAll(call, args.requests, res.completions);
  co_await executing;
  batches.EndSynchronous(args.requests);
  call.Finish(DafsStatus::kOk, args, res);
}

void HurryUp(Call& call) {
  wire::HurryUpArgs args;
  if (!call.Decode(args)) return;
  Batches& batches = Batches::Of(call.session());
  const bool found = batches.HurryUp(args.request_id);
  call.Finish(found ? DafsStatus::kOk : DafsStatus::kBatchRequestNotFound, args,
              wire::HurryUpRes());
  if (found) {
    batches.Report();
    batches.Begin();
  }
}

}  // namespace

constexpr Procedure kBatchSubmitHandler = {.start = BatchSubmit};
constexpr Procedure kHurryUpHandler = {.run = HurryUp};

}  // namespace dafs::server
