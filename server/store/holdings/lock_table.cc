#include "server/store/holdings/lock_table.h"

#include <algorithm>
#include <utility>

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
    if (ticket.owner == owner || ticket.by_kernel || ticket.asked + kTicketLife < now) continue;
    if (!ticket.range.ConflictsWith(range)) continue;
    if (HeldAgainst(file, ticket.owner, ticket.range)) continue;
    return Conflict{LockOwner(), ticket.range};
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

template <class Match>
void LockTable::DropTickets(File& file, Match match) {
  for (auto it = file.tickets.begin(); it != file.tickets.end();) {
    if (match(*it)) {
      Count(it->owner.client_id, &Counts::tickets, -1);
      it = file.tickets.erase(it);
    } else {
      ++it;
    }
  }
}

bool LockTable::MayGrant(const LockOwner& owner) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto counts = counts_.find(owner.client_id);
  return counts == counts_.end() || counts->second.locks < kLocksPerClient;
}

void LockTable::Grant(const ObjectKey& key, const LockOwner& owner, const LockRange& range) {
  absl::MutexLock lock(&mutex_);
  File& file = files_[key];
  DropTickets(file, [&](const Ticket& ticket) {
    return ticket.owner == owner && ticket.range.Overlaps(range);
  });
  Holder& holder = FindOrAdd(file, owner);
  const size_t before = holder.ranges.size();
  holder.ranges.Set(range);
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
  DropTickets(it->second, [&](const Ticket& ticket) { return ticket.owner == owner; });
  Tidy(key);
  return kernel;
}

void LockTable::Wait(const ObjectKey& key, const LockOwner& owner, const LockRange& range,
                     absl::Time now, bool by_kernel) {
  absl::MutexLock lock(&mutex_);
  File& file = files_[key];
  DropTickets(file, [&](const Ticket& ticket) { return ticket.asked + kTicketLife < now; });
  auto same = std::find_if(file.tickets.begin(), file.tickets.end(), [&](const Ticket& ticket) {
    return ticket.owner == owner && ticket.range == range;
  });
  if (same != file.tickets.end()) {
    same->asked = now;
    same->by_kernel = by_kernel;
    return;
  }
  auto counts = counts_.find(owner.client_id);
  if (counts == counts_.end() || counts->second.tickets < kTicketsPerClient) {
    file.tickets.push_back({owner, range, now, by_kernel});
    Count(owner.client_id, &Counts::tickets, +1);
  }
  Tidy(key);
}

void LockTable::StopWaiting(const ObjectKey& key, const LockOwner& owner, const LockRange& range) {
  absl::MutexLock lock(&mutex_);
  auto it = files_.find(key);
  if (it == files_.end()) return;
  DropTickets(it->second, [&](const Ticket& ticket) {
    return ticket.owner == owner && ticket.range.Overlaps(range);
  });
  Tidy(key);
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

std::vector<LockTable::HeldLock> LockTable::LocksOf(const wire::ClientId& client_id) const {
  std::vector<HeldLock> locks;
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [key, file] : files_) {
    for (const Holder& holder : file.holders) {
      if (holder.owner.client_id != client_id) continue;
      for (const LockRange& range : holder.ranges.ranges()) {
        locks.push_back({key, holder.owner.owner, range});
      }
    }
  }
  return locks;
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
