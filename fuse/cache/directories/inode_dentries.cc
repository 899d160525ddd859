#include "fuse/cache/directories/inode_dentries.h"

#include <algorithm>

namespace dafs::fuse {

void InodeDentries::FoundAt(const DentryName& dentry, absl::Time now) {
  if (latest_ == dentry) return;
  if (others_ != nullptr && others_->until < now) others_.reset();
  if (now <= until_) {
    const bool unsure = lost_ || !seen_;
    if (others_ == nullptr) {
      others_ = std::make_unique<Others>(Others{latest_, until_, change_, unsure});
    } else {
      others_->only = DentryName();
      others_->until = std::max(others_->until, until_);
      others_->mixed = others_->mixed || unsure || others_->change != change_;
    }
  }
  latest_ = dentry;
  until_ = absl::InfinitePast();
  seen_ = lost_ = false;
}

void InodeDentries::Sent(const DentryName& dentry, uint64_t change, absl::Time until) {
  if (latest_ != dentry) return;
  until_ = std::max(until_, until);  // the kernel may use an earlier reply for longer
  change_ = change;
  seen_ = true;
  lost_ = false;
}

void InodeDentries::Moved(const DentryName& from, const DentryName& to) {
  if (latest_ != from) return;
  latest_ = to;
  seen_ = false;  // the rename has changed CHANGE, and another client may have renamed since
}

void InodeDentries::Removed(const DentryName& dentry) {
  if (latest_ == dentry) until_ = absl::InfinitePast();
  if (others_ != nullptr && others_->only == dentry) DropOthers();
}

const DentryName* InodeDentries::NotSeenAt(uint64_t change, absl::Time now) const {
  return now <= until_ && !lost_ && (!seen_ || change_ != change) ? &latest_ : nullptr;
}

void InodeDentries::Confirm(const DentryName& dentry, uint64_t change) {
  Sent(dentry, change, until_);
}

void InodeDentries::Lose(const DentryName& dentry) { lost_ = lost_ || latest_ == dentry; }

bool InodeDentries::AnyLost(uint64_t change, absl::Time now) const {
  if (lost_ && now <= until_) return true;
  return others_ != nullptr && now <= others_->until &&
         (others_->mixed || others_->change != change);
}

InodeDentries::Saved InodeDentries::Save() const {
  return {.until_ns = absl::ToUnixNanos(until_),
          .change = change_,
          .seen = seen_,
          .lost = lost_,
          .others_until_ns = others_ == nullptr ? 0 : absl::ToUnixNanos(others_->until)};
}

// Which others there are is not saved: after a change of the node, none is trusted.
void InodeDentries::Restore(const DentryName& latest, const Saved& saved) {
  latest_ = latest;
  until_ = absl::FromUnixNanos(saved.until_ns);
  change_ = saved.change;
  seen_ = saved.seen;
  lost_ = saved.lost;
  if (saved.others_until_ns == 0) return;
  others_ = std::make_unique<Others>();
  others_->until = absl::FromUnixNanos(saved.others_until_ns);
  others_->mixed = true;
}

}  // namespace dafs::fuse
