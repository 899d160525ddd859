#include "fuse/cache/kernel_view.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/hash/hash.h"

namespace dafs::fuse {

absl::Duration KernelView::Send(const wire::FileAttributes& attributes, absl::Time at,
                                absl::Time arrived, absl::Time now, const CacheTimes& times,
                                Keeping keeping) {
  // The kernel discards attributes that it requested before it accepted others, and may have
  // accepted those of another CHANGE after this request arrived.
  if (change_ != attributes.change) unsure_until_ = answered_at_ + kTaken;
  unsure_ = arrived < unsure_until_;
  answered_at_ = now;
  const bool directory = attributes.object_type == wire::ObjectType::kDir;
  const absl::Duration least = directory ? times.dir_min : times.reg_min;
  const absl::Duration most = directory ? times.dir_max : times.reg_max;
  if (keeping == Keeping::kNot) {
    valid_for_ = absl::ZeroDuration();
  } else if (keeping == Keeping::kPromised) {
    valid_for_ = PromiseRules::kPromisedFor;
  } else if (!sent_ || change_ != attributes.change) {
    valid_for_ = least;
  } else if (at - sent_at_ >= valid_for_) {
    valid_for_ = std::clamp(valid_for_ * 2, least, most);
  } else {
    valid_for_ = std::min(valid_for_, most);  // it was promised before
  }
  sent_ = true;
  shows_set_id_ = attributes.object_type == wire::ObjectType::kReg &&
                  (attributes.mode & (S_ISUID | S_ISGID)) != 0;
  change_ = attributes.change;
  shown_ = ShownOf(attributes);
  rights_ = RightsOf(attributes);
  owes_pages_ = restored_ = false;
  sent_at_ = at;
  return valid_for_;
}

uint32_t KernelView::ShownOf(const wire::FileAttributes& attributes) {
  return static_cast<uint32_t>(absl::HashOf(attributes.object_size, attributes.time_modify.seconds,
                                            attributes.time_modify.nseconds));
}

uint32_t KernelView::RightsOf(const wire::FileAttributes& attributes) {
  return static_cast<uint32_t>(
      absl::HashOf(attributes.mode, attributes.owner, attributes.owner_group));
}

void KernelView::Invalidated() {
  answered_at_ = absl::InfinitePast();
  unsure_until_ = absl::InfinitePast();
  unsure_ = false;
  shows_set_id_ = false;
}

}  // namespace dafs::fuse
