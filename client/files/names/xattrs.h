// Extended attributes. Spec: 4.1.5 (named attributes), 6.5.25 (OPENATTR).
// Threads and blocking: client/files/files.h.
//
// An extended attribute is the named attribute of the same name. Getting, setting, listing and
// removing each use one chain that begins with OPENATTR. One READ reads a value. One OPEN and its
// CLOSE enclose all writes of a value, so that no reader sees a part of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/shared/operations.h"
#include "client/state/records/identity.h"
#include "client/state/xattrs.h"
#include "runtime/loop/task.h"
#include "wire/messages/messages.h"
#include "wire/protocol/types.h"

namespace dafs::client {

class OpenOperations;

class XattrOperations : public OperationGroup {
 public:
  // `opens` closes the open of an interrupted change. It outlives this.
  XattrOperations(const OperationContext& context, OpenOperations& opens)
      : OperationGroup(context), opens_(opens) {}

  // Returns the value of the extended attribute `name`, the whole Linux name ("user.x"). The value
  // is one that was set, never parts of two. NOENT: there is none; NOTSUPP (kUnimplemented): the
  // server or its file system has no such attributes. `can_wait`: the request may wait for another
  // one to leave with, as in CallBase.
  Task<absl::StatusOr<std::string>> GetXattr(const Identity& user, const wire::FileHandle& file,
                                             std::string_view name, bool can_wait = false);
  // Atomic: others see the old value or the new one. `value` stays until this returns. FBIG: larger
  // than kXattrMost; NOSPC: larger than the file system allows.
  Task<absl::Status> SetXattr(const Identity& user, const wire::FileHandle& file,
                              std::string_view name, std::string_view value, XattrMode mode);
  // NOENT: there is none.
  Task<absl::Status> RemoveXattr(const Identity& user, const wire::FileHandle& file,
                                 std::string_view name);
  // Returns the names that the caller may see, in no particular order.
  Task<absl::StatusOr<std::vector<std::string>>> ListXattrs(const Identity& user,
                                                            const wire::FileHandle& file);

 private:
  Task<absl::StatusOr<std::string>> GetXattrDirect(const Identity& user,
                                                   const wire::FileHandle& attribute);
  Task<absl::Status> SetXattrBy(const Identity& user, const wire::FileHandle& file,
                                std::string_view name, XattrMode mode,
                                std::span<CallBase* const> writes);
  Task<void> AbandonXattr(const Identity& user, const wire::OpenRes& open, wire::ClientId client_id,
                          std::string owner);

  OpenOperations& opens_;
  uint64_t set_ = 0;  // numbers the opens of SetXattr: each is its own owner
};

}  // namespace dafs::client
