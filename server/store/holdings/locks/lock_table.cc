#include "server/store/holdings/locks/lock_table.h"

#include <algorithm>
#include <utility>

#include "wire/protocol/process_owner.h"

namespace dafs::server {

using wire::LockRange;

const LockTable::Holder* LockTable::Find(const File& file, const LockOwner& owner) {
  auto it = std::find_if(file.holders.begin(), file.holders.end(),
                         [&](const Holder& holder) { return holder.owner == owner; });
  return it == file.holders.end() ? nullptr : &*it;
}

LockTable::Holder& LockTable::FindOrAdd(File& file, const LockOwner& owner) {
  if (const Holder* holder = Find(file, owner)) return const_cast<Holder&>(*holder);
  file.holders.push_back({.owner = owner, .ranges = {}, .kernel = nullptr});
  return file.holders.back();
}

std::optional<LockTable::Conflict> LockTable::HeldAgainst(const File& file, const LockOwner& owner,
                                                          const LockRange& range) {
  for (const Holder& holder : file.holders) {
    if (holder.owner == owner) continue;
    if (const LockRange* held = holder.ranges.FindConflict(range)) {
      return Conflict{holder.owner, *held};
    }
  }
  return std::nullopt;
}

std::optional<LockTable::Conflict> LockTable::CheckHeld(const ObjectKey& key,
                                                        const LockOwner& owner,
                                                        const LockRange& range) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto file = files_.find(key);
  if (file == files_.end()) return std::nullopt;
  return HeldAgainst(file->second, owner, range);
}

bool LockTable::IsWriteLocked(const ObjectKey& key, const wire::ClientId& but) const {
  const LockRange whole{0, wire::kFlockByte, /*write=*/false};
  absl::ReaderMutexLock lock(&mutex_);
  const auto file = files_.find(key);
  if (file == files_.end()) return false;
  const std::vector<Holder>& holders = file->second.holders;
  return std::any_of(holders.begin(), holders.end(), [&](const Holder& holder) {
    return holder.owner.client_id != but && holder.ranges.FindConflict(whole) != nullptr;
  });
}

std::optional<LockTable::Conflict> LockTable::Check(const ObjectKey& key, const LockOwner& owner,
                                                    const LockRange& range, absl::Time now) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = files_.find(key);
  if (it == files_.end()) return std::nullopt;
  const File& file = it->second;
  if (std::optional<Conflict> held = HeldAgainst(file, owner, range)) return held;
  for (const Ticket& ticket : file.tickets) {
    // The owner has a ticket for this range: later tickets wait for it.
    if (ticket.owner == owner && ticket.range.Overlaps(range)) break;
    if (ticket.owner == owner || ticket.mode.by_kernel || ticket.expires < now) continue;
    if (!ticket.range.ConflictsWith(range)) continue;
    if (HeldAgainst(file, ticket.owner, ticket.range)) continue;
    return Conflict{ticket.owner, ticket.range};
  }
  return std::nullopt;
}

void LockTable::Count(const wire::ClientId& client_id, size_t Counts::*what, int64_t change) {
  if (change == 0) return;
  Counts& counts = counts_[client_id];
  counts.*what = static_cast<size_t>(static_cast<int64_t>(counts.*what) + change);
  if (counts.locks == 0 && counts.tickets == 0) counts_.erase(client_id);
}

void LockTable::Tidy(const ObjectKey& key) {
  auto it = files_.find(key);
  if (it != files_.end() && it->second.holders.empty() && it->second.tickets.empty()) {
    files_.erase(it);
  }
}

LockOwner LockTable::ProcessOf(const LockOwner& owner) {
  return {owner.client_id, std::string(wire::ProcessOf(owner.owner))};
}

template <class Match>
void LockTable::DropTickets(const ObjectKey& key, File& file, Match match) {
  for (auto it = file.tickets.begin(); it != file.tickets.end();) {
    if (!match(*it)) {
      ++it;
      continue;
    }
    Count(it->owner.client_id, &Counts::tickets, -1);
    if (it->mode.of_process) SetProcess(key, *it, false);
    it = file.tickets.erase(it);
    Changed(key, file);
  }
}

void LockTable::SetProcess(const ObjectKey& key, Ticket& ticket, bool of_process) {
  if (ticket.mode.of_process == of_process) return;
  ticket.mode.of_process = of_process;
  auto files = waiting_.try_emplace(ProcessOf(ticket.owner)).first;
  if (of_process) {
    files->second.push_back(key);
    return;
  }
  files->second.erase(std::find(files->second.begin(), files->second.end(), key));
  if (files->second.empty()) waiting_.erase(files);
}

void LockTable::Changed(const ObjectKey& key, const File& file) {
  if (file.tickets.empty()) return;
  changed_.insert(key);
  has_turns_.store(true, std::memory_order_release);
}

bool LockTable::MayGrant(const LockOwner& owner) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto counts = counts_.find(owner.client_id);
  return counts == counts_.end() || counts->second.locks < kLocksPerClient;
}

void LockTable::Grant(const ObjectKey& key, const LockOwner& owner, const LockRange& range) {
  absl::MutexLock lock(&mutex_);
  File& file = files_[key];
  DropTickets(key, file, [&](const Ticket& ticket) {
    return ticket.owner == owner && ticket.range.Overlaps(range);
  });
  Holder& holder = FindOrAdd(file, owner);
  const size_t before = holder.ranges.size();
  holder.ranges.Set(range);
  Changed(key, file);  // it may have replaced a lock for writing by one for reading
  Count(owner.client_id, &Counts::locks,
        static_cast<int64_t>(holder.ranges.size()) - static_cast<int64_t>(before));
}

bool LockTable::Clear(const ObjectKey& key, const LockOwner& owner, uint64_t first, uint64_t last,
                      std::unique_ptr<KernelLock>* kernel) {
  absl::MutexLock lock(&mutex_);
  auto it = files_.find(key);
  if (it == files_.end() || Find(it->second, owner) == nullptr) return false;
  Holder& holder = FindOrAdd(it->second, owner);
  const size_t before = holder.ranges.size();
  holder.ranges.Clear(first, last);
  Changed(key, it->second);
  Count(owner.client_id, &Counts::locks,
        static_cast<int64_t>(holder.ranges.size()) - static_cast<int64_t>(before));
  if (!holder.ranges.empty()) return true;
  *kernel = EraseHolder(key, it->second, owner);
  return false;
}

std::unique_ptr<KernelLock> LockTable::EraseHolder(const ObjectKey& key, File& file,
                                                   const LockOwner& owner) {
  std::unique_ptr<KernelLock> kernel = std::move(FindOrAdd(file, owner).kernel);
  std::erase_if(file.holders, [&](const Holder& holder) { return holder.owner == owner; });
  Tidy(key);
  return kernel;
}

std::unique_ptr<KernelLock> LockTable::Release(const ObjectKey& key, const LockOwner& owner) {
  std::unique_ptr<KernelLock> kernel;
  Clear(key, owner, 0, wire::kFlockByte, &kernel);
  absl::MutexLock lock(&mutex_);
  auto it = files_.find(key);
  if (it == files_.end()) return kernel;
  DropTickets(key, it->second, [&](const Ticket& ticket) { return ticket.owner == owner; });
  Tidy(key);
  return kernel;
}

bool LockTable::Wait(const ObjectKey& key, const LockOwner& owner, const LockRange& range,
                     absl::Time now, const WaitMode& mode) {
  absl::MutexLock lock(&mutex_);
  File& file = files_[key];
  const auto is_same = [&](const Ticket& ticket) {
    return ticket.owner == owner && ticket.range == range;
  };
  DropTickets(key, file, [&](const Ticket& ticket) { return ticket.expires < now; });
  if (mode.of_process && IsDeadlock(key, owner, range, now)) {
    DropTickets(key, file, is_same);
    Tidy(key);
    return false;
  }
  auto ticket = std::find_if(file.tickets.begin(), file.tickets.end(), is_same);
  if (ticket == file.tickets.end()) {
    auto counts = counts_.find(owner.client_id);
    if (counts != counts_.end() && counts->second.tickets >= kTicketsPerClient) {
      Tidy(key);
      return true;
    }
    ticket = file.tickets.insert(file.tickets.end(), {owner, range, {}, now, false});
    Count(owner.client_id, &Counts::tickets, +1);
  }
  if (mode.by_kernel && !ticket->mode.by_kernel) Changed(key, file);  // it reserves nothing now
  SetProcess(key, *ticket, mode.of_process);
  ticket->mode = mode;
  ticket->expires = now + (mode.awaits ? kAwaitingTicketLife : kTicketLife);
  ticket->notified = false;
  return true;
}

bool LockTable::IsDeadlock(const ObjectKey& key, const LockOwner& owner, const LockRange& range,
                           absl::Time now) const {
  struct Step {
    ObjectKey file;
    LockOwner process;
    LockRange range;
  };
  const LockOwner first = ProcessOf(owner);
  std::vector<Step> steps = {{key, first, range}};
  absl::flat_hash_set<LockOwner> seen;
  while (!steps.empty()) {
    const Step wait = std::move(steps.back());
    steps.pop_back();
    for (const Holder& holder : files_.find(wait.file)->second.holders) {
      if (holder.ranges.FindConflict(wait.range) == nullptr) continue;
      LockOwner process = ProcessOf(holder.owner);
      // Not a wait for itself: an earlier open of the process for the file, which is being closed.
      if (process == wait.process) continue;
      if (process == first) return true;
      auto waits = waiting_.find(process);
      if (waits == waiting_.end() || !seen.insert(process).second) continue;
      for (const ObjectKey& file : waits->second) {
        for (const Ticket& ticket : files_.find(file)->second.tickets) {
          if (!ticket.mode.of_process || ticket.expires < now) continue;
          if (ProcessOf(ticket.owner) == process) steps.push_back({file, process, ticket.range});
        }
      }
    }
  }
  return false;
}

void LockTable::StopWaiting(const ObjectKey& key, const LockOwner& owner, const LockRange& range) {
  absl::MutexLock lock(&mutex_);
  auto it = files_.find(key);
  if (it == files_.end()) return;
  DropTickets(key, it->second, [&](const Ticket& ticket) {
    return ticket.owner == owner && ticket.range.Overlaps(range);
  });
  Tidy(key);
}

std::vector<LockTable::Turn> LockTable::TakeTurns(absl::Time now) {
  std::vector<Turn> turns;
  absl::MutexLock lock(&mutex_);
  has_turns_.store(false, std::memory_order_release);
  for (const ObjectKey& key : std::exchange(changed_, {})) {
    auto file = files_.find(key);
    if (file != files_.end()) FindTurns(key, file->second, now, &turns);
  }
  return turns;
}

void LockTable::FindTurns(const ObjectKey& key, File& file, absl::Time now,
                          std::vector<Turn>* turns) {
  std::vector<const Ticket*> reserving;
  for (Ticket& ticket : file.tickets) {
    if (ticket.mode.by_kernel || ticket.expires < now) continue;
    const bool is_behind = std::any_of(reserving.begin(), reserving.end(), [&](const Ticket* t) {
      return t->owner != ticket.owner && t->range.ConflictsWith(ticket.range);
    });
    if (is_behind || HeldAgainst(file, ticket.owner, ticket.range)) continue;
    reserving.push_back(&ticket);
    if (!ticket.mode.awaits || std::exchange(ticket.notified, true)) continue;
    ticket.expires = now + kTicketLife;
    turns->push_back({key, ticket.owner, ticket.range});
  }
}

void LockTable::DropTurn(const Turn& turn) {
  absl::MutexLock lock(&mutex_);
  auto it = files_.find(turn.file);
  if (it == files_.end()) return;
  DropTickets(turn.file, it->second, [&](const Ticket& ticket) {
    return ticket.notified && ticket.owner == turn.owner && ticket.range == turn.range;
  });
  Tidy(turn.file);
}

void LockTable::DropAwaiting(const wire::ClientId& client_id) {
  absl::MutexLock lock(&mutex_);
  auto counts = counts_.find(client_id);
  if (counts == counts_.end() || counts->second.tickets == 0) return;
  std::vector<ObjectKey> keys;
  for (auto& [key, file] : files_) {
    DropTickets(key, file, [&](const Ticket& ticket) {
      return ticket.mode.awaits && ticket.owner.client_id == client_id;
    });
    if (file.tickets.empty()) keys.push_back(key);
  }
  for (const ObjectKey& key : keys) Tidy(key);
}

KernelLock* LockTable::FindKernel(const ObjectKey& key, const LockOwner& owner) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = files_.find(key);
  const Holder* holder = it == files_.end() ? nullptr : Find(it->second, owner);
  return holder == nullptr ? nullptr : holder->kernel.get();
}

KernelLock* LockTable::SetKernel(const ObjectKey& key, const LockOwner& owner,
                                 std::unique_ptr<KernelLock> kernel) {
  absl::MutexLock lock(&mutex_);
  Holder& holder = FindOrAdd(files_[key], owner);
  holder.kernel = std::move(kernel);
  return holder.kernel.get();
}

std::unique_ptr<KernelLock> LockTable::DropUnused(const ObjectKey& key, const LockOwner& owner) {
  absl::MutexLock lock(&mutex_);
  auto it = files_.find(key);
  const Holder* holder = it == files_.end() ? nullptr : Find(it->second, owner);
  if (holder == nullptr || !holder->ranges.empty()) return nullptr;
  return EraseHolder(key, it->second, owner);
}

wire::LockRanges LockTable::Held(const ObjectKey& key, const LockOwner& owner) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto it = files_.find(key);
  const Holder* holder = it == files_.end() ? nullptr : Find(it->second, owner);
  return holder == nullptr ? wire::LockRanges() : holder->ranges;
}

std::vector<ObjectKey> LockTable::Files() const {
  std::vector<ObjectKey> files;
  absl::ReaderMutexLock lock(&mutex_);
  files.reserve(files_.size());
  for (const auto& [key, file] : files_) files.push_back(key);
  return files;
}

std::vector<LockTable::Entry> LockTable::EntriesOf(const ObjectKey& key, absl::Time now,
                                                   size_t most) const {
  std::vector<Entry> entries;
  absl::ReaderMutexLock lock(&mutex_);
  const auto it = files_.find(key);
  if (it == files_.end()) return entries;
  for (const Holder& holder : it->second.holders) {
    for (const LockRange& range : holder.ranges.ranges()) {
      if (entries.size() == most) return entries;
      entries.push_back({.owner = holder.owner, .range = range});
    }
  }
  for (const Ticket& ticket : it->second.tickets) {
    if (entries.size() == most) return entries;
    if (ticket.expires < now) continue;  // it has gone away
    entries.push_back({.owner = ticket.owner,
                       .range = ticket.range,
                       .waits = true,
                       .by_kernel = ticket.mode.by_kernel});
  }
  return entries;
}

size_t LockTable::size() const {
  absl::ReaderMutexLock lock(&mutex_);
  size_t count = 0;
  for (const auto& [client_id, counts] : counts_) count += counts.locks;
  return count;
}

size_t LockTable::waiting() const {
  absl::ReaderMutexLock lock(&mutex_);
  size_t count = 0;
  for (const auto& [client_id, counts] : counts_) count += counts.tickets;
  return count;
}

}  // namespace dafs::server
