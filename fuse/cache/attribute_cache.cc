#include "fuse/cache/attribute_cache.h"

#include <algorithm>
#include <utility>

namespace dafs::fuse {

absl::Duration AttributeCache::Sent(uint64_t nodeid, const client::Attributes& attributes,
                                    absl::Time now, absl::Time arrived, bool* hides_change) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) {
      KernelView& kernel = inode->kernel;
      const bool hides = hides_change != nullptr && rules_.offered() &&
                         kernel.HidesChange(attributes) &&
                         (kernel.owes_pages() ||
                          !inode->promised.HeldSince(kernel.sent_at(), rules_, inode->handle));
      const bool later =
          hides_change == nullptr ? kernel.owes_pages() : hides && kernel.MustAccept(attributes);
      if (hides_change != nullptr) *hides_change = hides && !later;
      inode->latest.Sent(attributes);
      inode->promised.Got(attributes.promise, now, rules_, inode->handle);
      kernel.Send(attributes, now, arrived, now, times_,
                  rules_.Of(attributes.promise, inode->handle));
      if (later) kernel.OwePageDrop();
      return kernel.valid_for();
    }
    if (rules_.offered()) return absl::ZeroDuration();
    const bool directory = attributes.object_type == wire::ObjectType::kDir;
    return directory ? times_.dir_min : times_.reg_min;
  });
}

bool AttributeCache::MayDropPages(uint64_t nodeid, const client::Promise& promise) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return false;
    if (!promise || rules_.IsGood(promise, inode->handle)) return true;
    inode->kernel.OwePageDrop();
    return false;
  });
}

void AttributeCache::NotAccepted(uint64_t nodeid) {
  inodes_.With(nodeid, [](Inode* inode) {
    if (inode != nullptr) inode->kernel.NotAccepted();
  });
}

void AttributeCache::Invalidated(uint64_t nodeid) {
  inodes_.With(nodeid, [](Inode* inode) {
    if (inode != nullptr) inode->kernel.Invalidated();
  });
}

bool AttributeCache::IsPromised(uint64_t nodeid) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->promised.only_clients() &&
           inode->promised.HeldSince(absl::InfiniteFuture(), rules_, inode->handle);
  });
}

bool AttributeCache::HasOthersChanges(const Inode& inode) const {
  return inode.promised.only_clients() && inode.kernel.sent() &&
         inode.promised.HeldSince(inode.kernel.sent_at(), rules_, inode.handle);
}

bool AttributeCache::KernelHasOthersChanges(uint64_t nodeid) const {
  return inodes_.With(
      nodeid, [&](const Inode* inode) { return inode != nullptr && HasOthersChanges(*inode); });
}

bool AttributeCache::AreSent(const Inode& inode, absl::Time now) const {
  const KernelView& kernel = inode.kernel;
  return HasOthersChanges(inode) && now < kernel.sent_at() + kernel.valid_for() &&
         inode.changes.changed_at() <= kernel.sent_at();
}

bool AttributeCache::IsAnswered(uint64_t nodeid, absl::Time now) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    if (inode == nullptr) return false;
    return inode->latest.unsent() ? !IsStale(*inode, now) : AreSent(*inode, now);
  });
}

std::vector<uint64_t> AttributeCache::KeptByKernel(uint64_t shard, absl::Time now) const {
  std::vector<uint64_t> nodes;
  inodes_.ForEachOf(shard, [&](uint64_t nodeid, const Inode& inode) {
    if (inode.kernel.Keeps(now)) nodes.push_back(nodeid);
  });
  return nodes;
}

bool AttributeCache::KernelIsCurrent(uint64_t nodeid, uint64_t change) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->kernel.IsCurrent(change);
  });
}

void AttributeCache::Learn(uint64_t nodeid, const client::Attributes& attributes) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->latest.Learn(attributes);
  });
}

std::optional<client::Attributes> AttributeCache::LastOfDirectory(uint64_t nodeid) const {
  return inodes_.With(nodeid, [&](const Inode* inode) -> std::optional<client::Attributes> {
    if (inode == nullptr || inode->latest.get() == nullptr) return std::nullopt;
    if (inode->latest.get()->object_type != wire::ObjectType::kDir) return std::nullopt;
    return *inode->latest.get();
  });
}

void AttributeCache::MarkChanged(Inode& inode, absl::Time now) {
  inode.changes.MarkChanged(now);
  inode.latest.DropUnsent();
}

bool AttributeCache::MarkChanged(uint64_t nodeid, absl::Time now) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return false;
    MarkChanged(*inode, now);
    return inode->kernel.shows_set_id();
  });
}

OwnChanges::Change AttributeCache::BeginChange(uint64_t nodeid, absl::Time now) {
  return inodes_.With(nodeid, [&](Inode* inode) -> OwnChanges::Change {
    if (inode == nullptr) return {};
    inode->latest.DropUnsent();
    OwnChanges::Change change = inode->changes.Begin(now);
    change.begun.removals = RemovalsOf(*inode);
    change.shows_set_id = inode->kernel.shows_set_id();
    return change;
  });
}

bool AttributeCache::EndChange(uint64_t nodeid, const OwnChanges::Change& change,
                               client::Attributes after, absl::Time now, uint64_t removals) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return false;
    const KernelView& kernel = inode->kernel;
    const bool undisturbed =
        inode->changes.Undisturbed(change) && !(kernel.sent() && kernel.sent_at() > change.at);
    if (!inode->changes.End(change, now)) return false;
    inode->latest.DropUnsent();
    if (undisturbed && after.valid != 0) {
      inode->latest.KeepUnsent(std::move(after),
                               {.at = now, .removals = change.begun.removals + removals});
    }
    return inode->kernel.shows_set_id();
  });
}

bool AttributeCache::IsChanging(uint64_t nodeid) const {
  return inodes_.With(
      nodeid, [](const Inode* inode) { return inode != nullptr && inode->changes.in_progress(); });
}

bool AttributeCache::ChangedSince(uint64_t nodeid, absl::Time when) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->changes.changed_at() >= when;
  });
}

bool AttributeCache::NewsSince(uint64_t nodeid, absl::Time when) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr &&
           (inode->changes.changed_at() >= when || inode->kernel.sent_at() >= when);
  });
}

bool AttributeCache::KernelLacksChange(uint64_t nodeid) const {
  return inodes_.With(nodeid, [](const Inode* inode) {
    return inode != nullptr && inode->changes.changed_at() > inode->kernel.sent_at();
  });
}

OwnChanges::Moment AttributeCache::MomentOf(uint64_t nodeid) const {
  return inodes_.With(nodeid, [this](const Inode* inode) -> OwnChanges::Moment {
    if (inode == nullptr) return {};
    return {inode->changes.change_count(), RemovalsOf(*inode)};
  });
}

void AttributeCache::KeepPrefetched(uint64_t nodeid, const OwnChanges::Moment& asked,
                                    const client::Attributes& attributes, absl::Time now) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr || inode->changes.change_count() != asked.change_count) return;
    if (inode->kernel.sent() && inode->kernel.sent_at() >= now) return;
    LatestAttributes& latest = inode->latest;
    if (latest.unsent() && latest.origin().at > now) return;  // they are from a later request
    latest.KeepUnsent(attributes, {.at = now, .removals = asked.removals});
  });
}

void AttributeCache::KeepSent(uint64_t nodeid, absl::Time now) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr || inode->latest.unsent() || inode->latest.get() == nullptr) return;
    if (!AreSent(*inode, now)) return;
    inode->latest.KeepUnsent(*inode->latest.get(),
                             {.at = inode->kernel.sent_at(), .removals = RemovalsOf(*inode)});
  });
}

void AttributeCache::InvalidatePrefetched(uint64_t nodeid) {
  inodes_.With(nodeid, [](Inode* inode) {
    if (inode != nullptr) inode->latest.DropUnsent();
  });
}

// Whether attributes that were not sent may no longer be used.
bool AttributeCache::IsStale(const Inode& inode, absl::Time now) const {
  const LatestAttributes::Origin& origin = inode.latest.origin();
  if (origin.removals != RemovalsOf(inode)) return true;
  const bool directory = inode.type == wire::ObjectType::kDir;
  const Keeping keeping = rules_.Of(inode.latest.get()->promise, inode.handle);
  if (keeping == Keeping::kNot) return true;
  const absl::Duration by_time = directory ? times_.dir_min : times_.reg_min;
  return now - origin.at >= (keeping == Keeping::kPromised ? PromiseRules::kPromisedFor : by_time);
}

std::optional<AttributeCache::Prefetched> AttributeCache::TakePrefetched(uint64_t nodeid,
                                                                         absl::Time now,
                                                                         absl::Time arrived) {
  return inodes_.With(nodeid, [&](Inode* inode) -> std::optional<Prefetched> {
    if (inode == nullptr || !inode->latest.unsent()) return std::nullopt;
    const LatestAttributes::Origin& origin = inode->latest.origin();
    if (IsStale(*inode, now)) {
      inode->latest.DropUnsent();
      return std::nullopt;
    }
    client::Attributes fresh = inode->latest.SendUnsent();
    const Keeping keeping = rules_.Of(fresh.promise, inode->handle);
    inode->promised.Got(fresh.promise, now, rules_, inode->handle);
    const absl::Duration age = now - origin.at;
    const absl::Duration valid_for =
        inode->kernel.Send(fresh, origin.at, arrived, now, times_, keeping) - age;
    return Prefetched{std::move(fresh), std::max(valid_for, absl::ZeroDuration())};
  });
}

}  // namespace dafs::fuse
