#include "client/recovery/calls/chain_members.h"

#include <algorithm>

namespace dafs::client {

size_t AnsweredWell(std::span<CallBase* const> chain) {
  size_t count = 0;
  while (count < chain.size() && chain[count]->ok()) ++count;
  return count;
}

const CallBase* FateUnknown(std::span<CallBase* const> chain) {
  for (const CallBase* call : chain) {
    const bool perhaps_done = call->is_out() || call->ok();
    if (perhaps_done && !call->idempotent()) return call;
  }
  return nullptr;
}

bool AnyDamaged(std::span<CallBase* const> chain) {
  return std::any_of(chain.begin(), chain.end(),
                     [](const CallBase* call) { return call->damaged; });
}

std::span<CallBase* const> Rest(std::span<CallBase* const> chain, size_t done) {
  if (done == 0) return chain;
  Current current;
  for (const CallBase* call : chain.first(done)) call->PassOn(current);
  chain[done]->TakeOver(current);
  return chain.subspan(done);
}

bool IsOfData(std::span<CallBase* const> chain) {
  switch (chain.front()->proc()) {
    case wire::Proc::kCommit:
    case wire::Proc::kWriteInline:
    case wire::Proc::kWriteDirect:
    case wire::Proc::kSetattrInline:
    case wire::Proc::kSetattrDirect:
    case wire::Proc::kAllocate:
      return true;
    default:
      return false;
  }
}

std::optional<wire::StateId> NameOpens(std::span<CallBase* const> chain, const Opens& opens,
                                       const wire::ClientId& client_id) {
  for (CallBase* call : chain) {
    std::optional<wire::StateId> unknown = NameOpen(*call, opens, client_id);
    if (unknown.has_value()) return unknown;
  }
  return std::nullopt;
}

void NameRoot(std::span<CallBase* const> chain, const RootHandle& root) {
  for (CallBase* call : chain) {
    call->VisitHandles([&](wire::FileHandle& handle) {
      if (auto present = root.Present(handle)) handle = *present;
    });
  }
}

OriginalFlags::OriginalFlags(std::span<CallBase* const> chain) {
  for (size_t i = 0; i < chain.size() && i < kMaxChain; ++i) {
    fh_[i] = chain[i]->chf_fh;
    state_id_[i] = chain[i]->chf_state_id;
  }
}

void OriginalFlags::Restore(std::span<CallBase* const> chain) const {
  for (size_t i = 0; i < chain.size() && i < kMaxChain; ++i) {
    chain[i]->chf_fh = fh_[i];
    chain[i]->chf_state_id = state_id_[i];
  }
}

}  // namespace dafs::client
