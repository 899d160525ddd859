#include "server/store/fencing/fence_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "wire/protocol/limits.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::FenceAccess;
using wire::FenceUpdate;

bool Admits(const FenceList& list, std::string_view id) {
  return list.empty() || std::binary_search(list.begin(), list.end(), id);
}

FencedObject FencedObject::FileSystem(const wire::FsHandle& fshandle) {
  return {wire::FenceObject::kFilesystem, MakeKey(fshandle, HandleKind::kFile, 0, {})};
}

bool FencedObject::Contains(const ObjectKey& object) const {
  return kind == wire::FenceObject::kFile ? object == key : object.fshandle() == key.fshandle();
}

DafsStatus Apply(const FenceChange& change, FenceList* list) {
  FenceList ids = change.ids;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!ids.empty() && ids.front().empty()) return DafsStatus::kInval;
  FenceList changed;
  if (change.update == FenceUpdate::kOverwrite) {
    if (change.access == FenceAccess::kDeny) return DafsStatus::kInval;
    changed = std::move(ids);
  } else if (change.access == FenceAccess::kAllow && change.update == FenceUpdate::kAppend) {
    std::set_union(list->begin(), list->end(), ids.begin(), ids.end(), std::back_inserter(changed));
  } else {
    std::set_difference(list->begin(), list->end(), ids.begin(), ids.end(),
                        std::back_inserter(changed));
    if (changed.empty() && !ids.empty()) return DafsStatus::kInval;
  }
  if (changed.size() > wire::kFenceIdsMax) return DafsStatus::kInval;
  *list = std::move(changed);
  return DafsStatus::kOk;
}

}  // namespace dafs::server
