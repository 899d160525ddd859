// Names: LOOKUP, READLINK, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK.
// Spec: 6.5.9, 6.5.17, 6.5.21, 6.5.31 to 6.5.34.
// Belongs to one worker's thread. Each function is called by Operations::Serve and answers `call`.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "client/files/files.h"
#include "fuse/files/user_files.h"
#include "fuse/operations/shared/context.h"
#include "fuse/operations/shared/mount_state.h"
#include "fuse/operations/shared/request_nodes.h"
#include "fuse/request/call.h"
#include "runtime/loop/task.h"

namespace dafs::fuse {

class NameOperations {
 public:
  explicit NameOperations(Context& context)
      : context_(context), state_(context.state), files_(context.files) {}

  Task<void> Lookup(Call& call);
  Task<void> Readlink(Call& call);
  Task<void> Mknod(Call& call);
  Task<void> Mkdir(Call& call);
  Task<void> Unlink(Call& call);  // and RMDIR
  Task<void> Symlink(Call& call);
  Task<void> Rename(Call& call);
  Task<void> Rename2(Call& call);
  Task<void> Link(Call& call);

 private:
  std::optional<InodeView> FileAt(uint64_t directory, std::string_view name) const;
  Task<void> ReadMade(CallerIdentity user, InodeView directory, uint64_t listing);
  Task<void> RenameTo(Call& call, uint64_t new_directory, std::string_view old_name,
                      std::string_view new_name, uint32_t flags);

  Context& context_;
  MountState& state_;
  UserFiles& files_;
};

}  // namespace dafs::fuse
