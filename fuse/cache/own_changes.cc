#include "fuse/cache/own_changes.h"

namespace dafs::fuse {

OwnChanges::Change OwnChanges::Begin(absl::Time now) {
  MarkChanged(now);
  Change change;
  change.alone = begun_ == ended_;
  change.number = ++begun_;
  change.at = now;
  change.begun.change_count = change_count_;
  return change;
}

bool OwnChanges::End(const Change& change, absl::Time now) {
  if (change.number == 0 || change.number > begun_) return false;
  ++ended_;
  MarkChanged(now);
  return true;
}

}  // namespace dafs::fuse
