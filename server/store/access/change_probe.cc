#include "server/store/access/change_probe.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "server/store/attributes/attributes.h"
#include "server/store/system/statx.h"

namespace dafs::server {

uint64_t ChangeOf(Object& object) {
  const uint64_t sample = object.change().Sample();
  struct statx stx;
  if (statx(object.path_fd(), "", AT_EMPTY_PATH, STATX_CTIME, &stx) != 0) return 0;
  return object.change().Value(CtimeNs(stx), sample);
}

ChangeProbe::ChangeProbe(Object& directory, RecentStats* recent)
    : directory_(directory), recent_(recent) {
  info_.before = ChangeOf(directory);
}

wire::ChangeInfo ChangeProbe::Modified() {
  directory_.change().Modified();
  const uint64_t sample = directory_.change().Sample();
  struct statx stx;
  if (Statx(directory_.path_fd(), &stx) == 0) {
    info_.after = directory_.change().Value(CtimeNs(stx), sample);
    if (recent_ != nullptr) recent_->Keep(directory_, sample, stx);
  }
  return info_;  // not atomic: another request may change the directory in between
}

}  // namespace dafs::server
