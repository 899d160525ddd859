#include "server/store/access/act_as.h"

#include <cstdint>

#include "server/store/system/identity.h"

namespace dafs::server {

using wire::DafsStatus;

DafsStatus ActAs(const Caller& caller, const Export& exported) {
  Identity identity;
  if (exported.squash == Squash::kAll) {
    identity.uid = exported.anonuid;
    identity.gid = exported.anongid;
  } else {
    const bool squash = exported.squash == Squash::kRoot;
    const auto group = [&](uint32_t gid) { return squash && gid == 0 ? exported.anongid : gid; };
    identity.uid = squash && caller.uid == 0 ? exported.anonuid : caller.uid;
    identity.gid = group(caller.gid);
    for (uint32_t gid : caller.groups) identity.groups.push_back(group(gid));
  }
  return AssumeIdentity(identity) ? DafsStatus::kOk : DafsStatus::kServerFault;
}

}  // namespace dafs::server
