// Data of open files: READ, FLUSH, FSYNC. WRITE is in write.h. Spec: 6.5.3, 6.5.8, 6.5.27, 6.5.28.
// Belongs to one worker's thread. Each function is called by Operations::Serve and answers `call`.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/files/files.h"
#include "client/memory/buffer_pool.h"
#include "fuse/files/open_files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class DataOperations {
 public:
  explicit DataOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Read(Call& call);
  Task<void> Flush(Call& call);
  Task<void> Fsync(Call& call);

 private:
  Task<absl::Status> ReadRest(const OpenState& open, uint64_t offset, client::BufferLease& lease,
                              uint32_t size, bool quiet, std::string& data);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
