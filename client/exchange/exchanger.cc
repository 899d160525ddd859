#include "client/exchange/exchanger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/exchange/attached.h"
#include "runtime/check.h"

namespace dafs::client {
namespace {

// The maximum size of a channel's first request and of its response (3.2.6.3).
constexpr uint32_t kFirstMessage = wire::kFirstReceiveBytes;

}  // namespace

Exchanger::Exchanger(SessionContext& context)
    : context_(context),
      slots_(context.client.options().max_requests, context.peer),
      windows_(context.link, slots_),
      sender_(context, buffers_, slots_, windows_),
      receiver_(context, buffers_, slots_, windows_, exchanges_),
      nulls_(context.link, slots_,
             [this](std::span<CallBase* const> chain) {
               return Run(wire::CredHandle(), chain, absl::InfiniteFuture());
             }),
      watch_(context, slots_, exchanges_, receiver_, [this] { nulls_.Probe(); }) {}

absl::Status Exchanger::MapBuffers(dat::Domain& domain) {
  const ClientOptions& options = context_.client.options();
  return buffers_.Map(domain, slots_.size(), std::max(options.max_request_size, kFirstMessage),
                      std::max(options.max_response_size, kFirstMessage));
}

Task<absl::Status> Exchanger::Run(wire::CredHandle cred, std::span<CallBase* const> chain,
                                  absl::Time deadline) {
  DAFS_CHECK(!chain.empty() && chain.size() <= kMaxChain, "a chain of 1 to 8 calls");
  for (CallBase* call : chain) call->Reset();
  const bool attaches = context_.negotiated.attributes_after && chain.size() > 1 &&
                        chain.back()->proc() == wire::Proc::kGetattrInline;
  return attaches ? RunAttached(cred, chain, deadline) : RunTogether(cred, chain, deadline);
}

Task<absl::Status> Exchanger::RunAttached(wire::CredHandle cred, std::span<CallBase* const> chain,
                                          absl::Time deadline) {
  AttachedChain attached(chain);
  Task<absl::Status> task = RunTogether(cred, attached.sent(), deadline);
  absl::Status status = co_await task;
  attached.Finish();
  co_return status;
}

Task<absl::Status> Exchanger::RunTogether(wire::CredHandle cred, std::span<CallBase* const> chain,
                                          absl::Time deadline) {
  const Link& link = context_.link;
  if (!link.usable()) co_return link.Lost();
  watch_.Start();
  const bool must_wait = slots_.MustWait(chain.size());
  const absl::Time came = must_wait ? Loop::Now() : absl::InfinitePast();
  if (must_wait) {
    sender_.PostAll();  // responses of posted requests free slots
    if (!link.usable()) co_return link.Lost();
  }
  Slots::Taking taking(slots_, chain.size(), deadline);
  absl::Status status = co_await taking;
  if (absl::IsResourceExhausted(status)) {
    Task<absl::Status> task = RunOneByOne(cred, chain, deadline);
    status = co_await task;
    co_return status;
  }
  if (!status.ok()) co_return status;
  Exchange exchange(chain, deadline);
  status = sender_.Prepare(cred, exchange, taking.indices());
  if (!status.ok()) co_return status;
  if (must_wait) NoteQueued(chain, exchange.since - came);
  exchanges_.Add(exchange);
  sender_.Post(chain);
  status = co_await exchange;
  co_return status;
}

void Exchanger::NoteQueued(std::span<CallBase* const> chain, absl::Duration time) {
  chain.front()->queued += time;
  for (const CallBase* call : chain) {
    wire::ProcedureTotals& totals = context_.totals[call->proc()];
    ++totals.queued;
    totals.queue_time += time;
  }
}

// Spec: 4.3.3: with fewer credits than members, sends the members one after the other as single
// requests. Passes filehandle and state id from one to the next, as the server does within a chain.
Task<absl::Status> Exchanger::RunOneByOne(wire::CredHandle cred, std::span<CallBase* const> chain,
                                          absl::Time deadline) {
  Current current;
  bool broken = false;
  for (CallBase* call : chain) {
    if (broken) {
      call->answered = true;
      call->status = wire::DafsStatus::kChainBroken;
      continue;
    }
    call->TakeOver(current);
    // A state id that was passed on is a permanent name: replace it by the server's.
    NameOpen(*call, context_.client.opens(), context_.negotiated.client_id);
    CallBase* const single[] = {call};
    Task<absl::Status> task = RunTogether(cred, single, deadline);
    absl::Status status = co_await task;
    if (!status.ok()) co_return status;
    broken = call->status != wire::DafsStatus::kOk;
    if (!broken) call->PassOn(current);
  }
  co_return absl::OkStatus();
}

void Exchanger::Handle(const dat::Completion& completion) {
  switch (completion.event) {
    case dat::Event::kReceive:
      // After a failed or flushed receive, kDisconnected follows.
      if (!completion.status.ok() || !context_.link.usable()) return;
      return receiver_.OnReceive(completion.cookie, completion.size_bytes);
    case dat::Event::kInvalidated:
      // After a failure, kDisconnected follows.
      if (completion.status.ok()) receiver_.OnInvalidated(completion.cookie);
      return;
    case dat::Event::kSend:
      if (completion.cookie < slots_.size()) {
        Slot& slot = slots_[completion.cookie];
        slot.sending = false;
        slots_.Release(slot);
      }
      return;
    default:
      return;  // only the server issues RDMA
  }
}

void Exchanger::UseFreeSlots() {
  while (context_.link.usable() && slots_.ServeFirst()) {
  }
  nulls_.ReturnCredits();
}

void Exchanger::Stop() {
  watch_.Stop();
  sender_.StopTimer();
}

// Resumes each waiter exactly once: it is removed from its queue first, and a dead session adds
// none.
void Exchanger::ResumeAll() {
  for (const Slot& slot : slots_.all()) {
    if (slot.expects_answer && slot.exchange != nullptr) ++context_.totals[slot.proc].lost;
  }
  slots_.Clear();
  sender_.Clear();
  windows_.Clear();
  const absl::Status lost = context_.link.Lost();
  while (Exchange* exchange = exchanges_.first()) {
    exchanges_.Wake(*exchange, absl::UnavailableError(
                                   absl::StrCat(NamesOf(exchange->chain), ": ", lost.message())));
  }
  slots_.End(lost);
}

void Exchanger::Fill(SessionReport& report) const {
  const absl::Time now = Loop::Now();
  report.nreq = slots_.credits().nreq();
  report.target_nreq = slots_.credits().target_nreq();
  report.slots = static_cast<uint32_t>(slots_.size());
  report.slots_taken = slots_.taken();
  report.waiting_for_slots = static_cast<uint32_t>(slots_.waiting());
  for (const Exchange* e = exchanges_.first(); e != nullptr; e = exchanges_.Next(*e)) {
    report.outstanding.push_back({NamesOf(e->chain), now - e->since});
  }
}

}  // namespace dafs::client
