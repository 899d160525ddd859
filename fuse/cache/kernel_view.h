// Which attributes of one node the kernel has cached, as far as the replies sent to it show.
//
// Not thread-safe: InodeTable keeps it under a shard's mutex.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "fuse/cache/promise_rules.h"
#include "fuse/options/options.h"
#include "wire/protocol/attributes.h"

namespace dafs::fuse {

class KernelView {
 public:
  // After this time the thread has accepted its reply, so the kernel accepts the reply to a later
  // request.
  static constexpr absl::Duration kTaken = absl::Milliseconds(50);
  // The time of a reply begins when the kernel's thread runs again, at most this much later.
  static constexpr absl::Duration kTimeStarts = absl::Seconds(1);

  // `attributes`, which were current at `at`, are sent at `now` in reply to a request that
  // `arrived` then. Returns for how long after `at` the kernel may cache them, which `keeping`
  // decides. By time, that is the least cache time at first. It doubles, up to the greatest, each
  // time the kernel asks again and nothing has changed (nfs(5)).
  absl::Duration Send(const wire::FileAttributes& attributes, absl::Time at, absl::Time arrived,
                      absl::Time now, const CacheTimes& times, Keeping keeping = Keeping::kByTime);
  // An earlier process has sent attributes with this CHANGE, and then invalidated them. Their other
  // values are not known, so the next ones count as hiding a change if their CHANGE differs.
  void Restore(uint64_t change) {
    sent_ = restored_ = true;
    change_ = change;
  }
  // The kernel did not accept the attributes after all, or has learned that the node was removed.
  void NotAccepted() { sent_ = false; }
  // The kernel's cached attributes were invalidated. It accepts none that were sent before.
  void Invalidated();

  // Whether `change` was last sent, and the kernel has certainly accepted it.
  bool IsCurrent(uint64_t change) const { return sent_ && !unsure_ && change_ == change; }
  // Attributes were sent. If so, `change` and `valid_for` are those of the last ones.
  bool sent() const { return sent_; }
  uint64_t change() const { return change_; }
  absl::Duration valid_for() const { return valid_for_; }
  // Whether these attributes of a regular file have another CHANGE than those sent last, but the
  // same size and mtime. Also after OwePageDrop.
  bool HidesChange(const wire::FileAttributes& attributes) const {
    return sent_ && attributes.object_type == wire::ObjectType::kReg &&
           (owes_pages_ || change_ != attributes.change) &&
           (restored_ || shown_ == ShownOf(attributes));
  }
  // Whether the kernel needs these attributes that hide a change: mode, owner or group differ from
  // those sent last, or an earlier process has sent those, so the size may differ, too.
  bool MustAccept(const wire::FileAttributes& attributes) const {
    return restored_ || rights_ != RightsOf(attributes);
  }
  // Call after Send if the attributes hide a change and the kernel needs them. Dropping pages now
  // would make the kernel discard these attributes. So it must ask again at once, and the next
  // answer hides a change, too: then pages are dropped.
  void OwePageDrop() {
    owes_pages_ = true;
    valid_for_ = absl::ZeroDuration();
  }
  bool owes_pages() const { return owes_pages_; }
  // Whether the kernel may use attributes at `now`.
  bool Keeps(absl::Time now) const { return sent_ && now <= sent_at_ + valid_for_ + kTimeStarts; }
  // When attributes were last current that were sent, even if the kernel did not accept them.
  absl::Time sent_at() const { return sent_at_; }
  // Whether the kernel may show set-id bits of the file. A change of its data may have cleared them
  // at the server, and the kernel does not request the mode after such a change.
  bool shows_set_id() const { return shows_set_id_; }

 private:
  // A value that differs, almost always, if size or mtime do.
  static uint32_t ShownOf(const wire::FileAttributes& attributes);
  // The same for mode, owner and group.
  static uint32_t RightsOf(const wire::FileAttributes& attributes);

  bool sent_ = false;
  bool shows_set_id_ = false;                       // for a file; until the kernel forgets its mode
  bool unsure_ = false;                             // the kernel may not have accepted change_
  bool restored_ = false;                           // by Restore, and nothing was sent since
  bool owes_pages_ = false;                         // OwePageDrop was called since the last Send
  uint32_t shown_ = 0;                              // ShownOf the attributes that were sent last
  uint32_t rights_ = 0;                             // RightsOf them
  absl::Time answered_at_ = absl::InfinitePast();   // the last request, with attributes
  absl::Time unsure_until_ = absl::InfinitePast();  // for requests that arrived before
  uint64_t change_ = 0;
  absl::Time sent_at_ = absl::InfinitePast();
  absl::Duration valid_for_;
};

}  // namespace dafs::fuse
