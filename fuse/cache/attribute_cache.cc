#include "fuse/cache/attribute_cache.h"

#include <algorithm>
#include <utility>

namespace dafs::fuse {

absl::Duration AttributeCache::Sent(uint64_t nodeid, const wire::FileAttributes& attributes,
                                    absl::Time now, const KernelQuestion& question) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) {
      inode->latest.Sent(attributes);
      return inode->kernel.Send(attributes, now, question, now, times_);
    }
    const bool directory = attributes.object_type == wire::ObjectType::kDir;
    return directory ? times_.dir_min : times_.reg_min;
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

bool AttributeCache::KernelIsCurrent(uint64_t nodeid, uint64_t change) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->kernel.IsCurrent(change);
  });
}

std::optional<AttributeCache::Again> AttributeCache::LookUpAgain(uint64_t nodeid, absl::Time now) {
  return inodes_.With(nodeid, [&](Inode* inode) -> std::optional<Again> {
    if (inode == nullptr || inode->latest.get() == nullptr) return std::nullopt;
    if (inode->type == wire::ObjectType::kDir || inode->type == wire::ObjectType::kReg) {
      return std::nullopt;
    }
    const KernelView& kernel = inode->kernel;
    if (!kernel.sent() || inode->changes.touched_at() >= kernel.sent_at()) return std::nullopt;
    const absl::Duration left = kernel.sent_at() + kernel.valid_for() - now;
    if (left <= absl::ZeroDuration()) return std::nullopt;
    ++inode->lookups;
    return Again{*inode->latest.get(), left};
  });
}

void AttributeCache::Learn(uint64_t nodeid, const wire::FileAttributes& attributes) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode != nullptr) inode->latest.Learn(attributes);
  });
}

std::optional<wire::FileAttributes> AttributeCache::LastOfDirectory(uint64_t nodeid) const {
  return inodes_.With(nodeid, [&](const Inode* inode) -> std::optional<wire::FileAttributes> {
    if (inode == nullptr || inode->latest.get() == nullptr) return std::nullopt;
    if (inode->latest.get()->object_type != wire::ObjectType::kDir) return std::nullopt;
    return *inode->latest.get();
  });
}

void AttributeCache::Touch(Inode& inode, absl::Time now) {
  inode.changes.Touch(now);
  inode.latest.DropUnsent();
}

bool AttributeCache::Touch(uint64_t nodeid, absl::Time now) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return false;
    Touch(*inode, now);
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
                               wire::FileAttributes after, absl::Time now, uint64_t removals) {
  return inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr) return false;
    const KernelView& kernel = inode->kernel;
    const bool undisturbed =
        inode->changes.Undisturbed(change) && !(kernel.sent() && kernel.sent_at() > change.at);
    if (!inode->changes.End(change, now)) return false;
    inode->latest.DropUnsent();
    inode->kernel.LacksChange();
    if (undisturbed && after.valid != 0) {
      inode->latest.KeepUnsent(
          std::move(after),
          {.at = now, .removals = change.begun.removals + removals, .of_change = true});
    }
    return inode->kernel.shows_set_id();
  });
}

bool AttributeCache::TouchedSince(uint64_t nodeid, absl::Time when) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr && inode->changes.touched_at() >= when;
  });
}

bool AttributeCache::NewsSince(uint64_t nodeid, absl::Time when) const {
  return inodes_.With(nodeid, [&](const Inode* inode) {
    return inode != nullptr &&
           (inode->changes.touched_at() >= when || inode->kernel.sent_at() >= when);
  });
}

bool AttributeCache::KernelLacksChange(uint64_t nodeid) const {
  return inodes_.With(
      nodeid, [](const Inode* inode) { return inode != nullptr && inode->kernel.lacks_change(); });
}

OwnChanges::Moment AttributeCache::MomentOf(uint64_t nodeid) const {
  return inodes_.With(nodeid, [this](const Inode* inode) -> OwnChanges::Moment {
    if (inode == nullptr) return {};
    return {inode->changes.touches(), RemovalsOf(*inode)};
  });
}

void AttributeCache::KeepFresh(uint64_t nodeid, const OwnChanges::Moment& asked,
                               const wire::FileAttributes& attributes, absl::Time now,
                               uint32_t thread) {
  inodes_.With(nodeid, [&](Inode* inode) {
    if (inode == nullptr || inode->changes.touches() != asked.touches) return;
    if (inode->kernel.sent() && inode->kernel.sent_at() >= now) return;
    LatestAttributes& latest = inode->latest;
    if (latest.unsent() && latest.origin().at > now) return;  // they are from a later request
    latest.KeepUnsent(attributes, {.at = now, .removals = asked.removals, .for_thread = thread});
  });
}

void AttributeCache::DropFresh(uint64_t nodeid) {
  inodes_.With(nodeid, [](Inode* inode) {
    if (inode != nullptr) inode->latest.DropUnsent();
  });
}

std::optional<AttributeCache::Fresh> AttributeCache::TakeFresh(uint64_t nodeid, absl::Time now,
                                                               const KernelQuestion& question) {
  return inodes_.With(nodeid, [&](Inode* inode) -> std::optional<Fresh> {
    if (inode == nullptr || !inode->latest.unsent()) return std::nullopt;
    const LatestAttributes::Origin& origin = inode->latest.origin();
    if (origin.for_thread != 0 && origin.for_thread != question.thread) return std::nullopt;
    const bool directory = inode->type == wire::ObjectType::kDir;
    const bool for_a_moment = !directory || origin.for_thread != 0;
    const absl::Duration kept = directory ? times_.dir_min : times_.reg_min;
    const absl::Duration least = for_a_moment ? std::min(kept, kFreshFileFor) : kept;
    const absl::Duration age = now - origin.at;
    if (age >= least || origin.removals != RemovalsOf(*inode)) {
      inode->latest.DropUnsent();
      return std::nullopt;
    }
    wire::FileAttributes fresh = inode->latest.SendUnsent();
    const absl::Duration valid_for =
        inode->kernel.Send(fresh, origin.at, question, now, times_) - age;
    return Fresh{std::move(fresh), valid_for, origin.of_change};
  });
}

}  // namespace dafs::fuse
