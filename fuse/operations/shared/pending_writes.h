// Waits for writes that were answered before the server has their data (write-behind). Every
// request that could see that the data is missing waits for it: all other requests for the file,
// and lookups of its names. Likewise, they wait for a request of a killed program, which the server
// may still execute.
// Belongs to one worker's thread. The table of pending writes is shared by all workers.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/files/files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/loop_wait.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class PendingWrites {
 public:
  // Both must outlive it.
  PendingWrites(MountState& state, UserFiles& files) : state_(state), files_(files) {}
  PendingWrites(const PendingWrites&) = delete;
  PendingWrites& operator=(const PendingWrites&) = delete;

  // Whether no write of any worker is pending. Cheap.
  bool none() const { return state_.write_behind.idle(); }
  // Waits until the server has all writes to the file that are pending now.
  // WriteBehindTable::kAnyNode: to any file.
  Task<void> Drained(uint64_t nodeid);

  // The caller of `call` is being killed. Later requests for the files that `call` changes wait
  // until it ends.
  void Hold(Call& call);

  // Called before a lookup; the result is for Revalidate. Returns nullopt if no write is pending.
  std::optional<absl::Time> BeforeAsking() const;
  // The reply to a lookup may be older than pending writes to that file. If so, waits for the
  // writes and requests the attributes again.
  Task<void> Revalidate(const client::Identity& user, std::optional<absl::Time> before,
                        absl::StatusOr<client::Node>& node);

  // Ends the calls that wait for writes of other workers. From now on none waits.
  void Shutdown();
  bool closed() const { return closed_; }

 private:
  MountState& state_;
  UserFiles& files_;
  absl::flat_hash_set<LoopWait*> waits_;  // of the calls that wait
  bool closed_ = false;
};

}  // namespace dafs::fuse
