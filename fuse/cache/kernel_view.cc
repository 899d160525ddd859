#include "fuse/cache/kernel_view.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/hash/hash.h"

namespace dafs::fuse {

// The kernel may discard this reply if an earlier reply had another CHANGE, and the kernel may have
// accepted that one after this request arrived.
void KernelView::Answers(uint64_t change, const KernelQuestion& question, absl::Time now) {
  const bool by_another = question.thread == 0 || question.thread != answered_thread_;
  if (answered_at_ != absl::InfinitePast() && change_ != change && by_another) {
    unsure_until_ = std::make_unique<absl::Time>(answered_at_ + kTaken);
  }
  unsure_ = unsure_until_ != nullptr && question.arrived < *unsure_until_;
  if (!unsure_) unsure_until_.reset();
  answered_thread_ = question.thread;
  answered_at_ = now;
}

absl::Duration KernelView::Send(const wire::FileAttributes& attributes, absl::Time at,
                                const KernelQuestion& question, absl::Time now,
                                const CacheTimes& times, Keeping keeping) {
  Answers(attributes.change, question, now);
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
  owes_pages_ = false;
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
  unsure_until_.reset();
  unsure_ = false;
  shows_set_id_ = false;
}

}  // namespace dafs::fuse
