#include "server/store/fencing/fencing.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/log/log.h"
#include "runtime/status_macros.h"
#include "server/store/system/kill_switch.h"

namespace dafs::server {

using wire::DafsStatus;

absl::Status Fencing::Load() {
  ASSIGN_OR_RETURN(auto lists, records_.Load());
  absl::MutexLock lock(&mutex_);
  for (auto& [object, list] : lists) lists_.emplace(object.key, std::move(list));
  any_ = !lists_.empty();
  if (any_) {
    LogNotice(absl::StrCat(lists_.size(),
                           lists_.size() == 1 ? " fencing list is" : " fencing lists are",
                           " in force"));
  }
  return absl::OkStatus();
}

bool Fencing::Admits(std::string_view id, const ObjectKey& object) const {
  absl::ReaderMutexLock lock(&mutex_);
  for (const ObjectKey& key : {object, FencedObject::FileSystem(object.fshandle()).key}) {
    const auto list = lists_.find(key);
    if (list != lists_.end() && !server::Admits(list->second, id)) return false;
  }
  return true;
}

FenceList Fencing::Get(const FencedObject& object) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto list = lists_.find(object.key);
  return list != lists_.end() ? list->second : FenceList();
}

DafsStatus Fencing::Set(const FencedObject& object, const FenceChange& change) {
  absl::MutexLock changing(&changing_);
  const FenceList before = Get(object);
  FenceList list = before;
  const DafsStatus status = Apply(change, &list);
  if (status != DafsStatus::kOk || list == before) return status;
  KillPoint(KillStep::kBefore, wire::Proc::kSetFencingList);
  if (const absl::Status stored = records_.Replace(object, list); !stored.ok()) {
    LogError(absl::StrCat("fencing list not changed: ", stored.message()));
    return stored.code() == absl::StatusCode::kResourceExhausted ? DafsStatus::kResource
                                                                 : DafsStatus::kServerFault;
  }
  KillPoint(KillStep::kRecorded, wire::Proc::kSetFencingList);
  absl::MutexLock lock(&mutex_);
  if (list.empty()) {
    lists_.erase(object.key);
  } else {
    lists_[object.key] = std::move(list);
  }
  any_ = !lists_.empty();
  return DafsStatus::kOk;
}

}  // namespace dafs::server
