// The fencing lists on disk: the table `fence` of the database (server/store/durable/database.h).
// Spec: 4.4.4.3 (lists are persistent).
// Thread-safe; blocks on the disk.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/durable/database.h"
#include "server/store/fencing/fence_list.h"

namespace dafs::server {

class FenceRecords {
 public:
  // `database` is borrowed and outlives this.
  explicit FenceRecords(Database& database) : database_(database) {}

  // Every list. Errors: kFailedPrecondition, with the remedy.
  absl::StatusOr<std::vector<std::pair<FencedObject, FenceList>>> Load();

  // Replaces the list of `object`, on stable storage when this returns OK. Errors: as of
  // Database::Transact, with the path and, for a full disk, the remedy; nothing has changed then.
  absl::Status Replace(const FencedObject& object, const FenceList& list);

 private:
  Database& database_;
};

}  // namespace dafs::server
