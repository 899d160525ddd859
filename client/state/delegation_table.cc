#include "client/state/delegation_table.h"

#include <memory>
#include <utility>
#include <vector>

#include "runtime/loop/loop.h"
#include "wire/protocol/constants.h"

namespace dafs::client {

namespace {

bool IsForWriting(const OpenInfo& info) { return (info.share_access & wire::kShareWrite) != 0; }

}  // namespace

bool DelegationTable::IsTrusted(const Delegation& delegation) const {
  return promises_.Reachable(delegation.asked, last_activity_(), Loop::Now());
}

DelegationPtr DelegationTable::Find(const wire::FileHandle& file) const {
  const auto it = by_file_.find(file);
  return it != by_file_.end() ? it->second : nullptr;
}

DelegationPtr DelegationTable::LenderOf(const wire::StateId& open) const {
  const auto it = locals_.find(open);
  return it != locals_.end() ? it->second : nullptr;
}

DelegationPtr DelegationTable::Make(const wire::FileHandle& file, const wire::StateId& state_id,
                                    const wire::ClientId& client_id, Identity user,
                                    uint64_t asked) {
  return std::make_shared<Delegation>(++last_number_, file, state_id, client_id, std::move(user),
                                      asked);
}

void DelegationTable::Add(const DelegationPtr& delegation) {
  by_file_[delegation->file] = delegation;
}

void DelegationTable::Record(Delegation& delegation) {
  if (recorder_ == nullptr) return;
  delegation.slot = recorder_->PutDelegation({.number = delegation.number,
                                              .file = delegation.file,
                                              .state_id = delegation.state_id,
                                              .client_id = delegation.client_id,
                                              .user = delegation.user,
                                              .was_write = delegation.was_write},
                                             delegation.slot);
}

void DelegationTable::DropRecord(Delegation& delegation) {
  if (recorder_ != nullptr) recorder_->Drop(std::exchange(delegation.slot, 0));
}

// ---- Local opens -----------------------------------------------------------------------------

wire::StateId DelegationTable::AddLocal(const DelegationPtr& delegation, OpenInfo info) {
  NotIdle(*delegation);
  const bool writes = IsForWriting(info);
  const wire::StateId open =
      opens_.AddLocal(std::move(info), delegation->state_id, delegation->client_id);
  delegation->locals.insert(open);
  if (writes) ++delegation->writers;
  locals_[open] = delegation;
  return open;
}

void DelegationTable::RestoreLocal(const DelegationPtr& delegation, const wire::StateId& open,
                                   const OpenInfo& info) {
  delegation->locals.insert(open);
  if (IsForWriting(info)) ++delegation->writers;
  locals_[open] = delegation;
}

DelegationPtr DelegationTable::RemoveLocal(const wire::StateId& open) {
  const auto it = locals_.find(open);
  if (it == locals_.end()) return nullptr;
  DelegationPtr delegation = std::move(it->second);
  locals_.erase(it);
  delegation->locals.erase(open);
  const std::shared_ptr<const OpenInfo> info = opens_.InfoOf(open);
  if (info != nullptr && IsForWriting(*info)) --delegation->writers;
  if (delegation->was_locked) locks_.MadeReal(delegation->file, open);
  return delegation;
}

void DelegationTable::ForgetLocals(const DelegationPtr& delegation) {
  for (const wire::StateId& open : delegation->locals) {
    locals_.erase(open);
    if (delegation->was_locked) locks_.MadeReal(delegation->file, open);
    opens_.Forgotten(open, delegation->state_id);
  }
  delegation->locals.clear();
  delegation->writers = 0;
}

// ---- The end of delegations ------------------------------------------------------------------

void DelegationTable::NotIdle(Delegation& delegation) {
  if (!delegation.idle.has_value()) return;
  idle_.erase(*delegation.idle);
  delegation.idle.reset();
}

void DelegationTable::Idle(const DelegationPtr& delegation) {
  NotIdle(*delegation);
  delegation->idle = idle_.insert(idle_.end(), delegation);
  if (idle_.size() <= kMostIdle) return;
  for (size_t i = 0; i < kAtOnce; ++i) {
    const DelegationPtr oldest = idle_.front();
    MakeDue(oldest);
  }
}

void DelegationTable::Doom(const wire::FileHandle& file) {
  doomed_.Doom(file, promises_.Advance());
}

// A response that has not arrived yet may grant it again.
void DelegationTable::End(const DelegationPtr& delegation) {
  if (std::exchange(delegation->ended, true)) return;
  NotIdle(*delegation);
  const auto it = by_file_.find(delegation->file);
  if (it != by_file_.end() && it->second == delegation) by_file_.erase(it);
  ended_.Add(delegation);
  Doom(delegation->file);
}

void DelegationTable::MakeDue(const DelegationPtr& delegation) {
  if (delegation->ended) return;
  End(delegation);
  ended_.MakeDue(delegation);
}

void DelegationTable::MakeAllDue() {
  std::vector<DelegationPtr> all;
  all.reserve(by_file_.size());
  for (const auto& [file, delegation] : by_file_) all.push_back(delegation);
  for (const DelegationPtr& delegation : all) MakeDue(delegation);
}

DelegationTable::Counts DelegationTable::CountsNow() const {
  Counts counts = counts_;
  const auto count = [&counts](const Delegation& delegation) {
    ++(delegation.type == wire::OpenDelegationType::kWrite ? counts.write : counts.read);
  };
  for (const auto& [file, delegation] : by_file_) count(*delegation);
  ended_.ForEach(count);
  return counts;
}

}  // namespace dafs::client
