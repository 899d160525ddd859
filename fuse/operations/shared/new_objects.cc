#include "fuse/operations/shared/new_objects.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fuse/kernel/acls/default_acl.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/attribute_names.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

// Requests the default ACL of the directory. Notes it if there is none.
Task<absl::StatusOr<std::string>> DefaultAclOf(Context& context, const client::Identity& user,
                                               InodeView directory) {
  const absl::Time asked = Loop::Now();
  absl::StatusOr<std::string> acl =
      co_await context.files.Of(user).xattrs().GetXattr(user, directory.handle, kDefaultAclXattr);
  const bool none = wire::DafsFromStatus(acl.status()) == wire::DafsStatus::kNoEnt ||
                    wire::DafsFromStatus(acl.status()) == wire::DafsStatus::kNotSupp;
  if (none && context.state.caches.attributes.KeepsFiles()) {
    context.state.caches.absent_xattrs.Note(directory.nodeid, AbsentXattr::kDefaultAcl, asked);
  }
  co_return acl;
}

Task<void> LearnDefaultAcl(Context& context, client::Identity user, InodeView directory) {
  Task<absl::StatusOr<std::string>> asking = DefaultAclOf(context, user, directory);
  absl::StatusOr<std::string> ignored = co_await asking;
}

}  // namespace

// As on ext4, a default ACL of the directory replaces the umask. The server's file system applies
// the ACL to the mode of CREATE or OPEN. The mode of sockets, FIFOs and devices is set after
// CREATE, which would undo that, so here the ACL is applied to their mode.
//
// If the ACL does not matter for the mode, it is requested without a wait, if the answer lasts:
// then the ACLs of what is created next are known (NoteNew).
Task<uint32_t> ModeOfNew(Context& context, const client::Identity& user, const InodeView& directory,
                         uint32_t mode, uint32_t umask) {
  const uint32_t type = mode & S_IFMT;
  const bool set_later = type != 0 && type != S_IFREG && type != S_IFDIR;
  const uint32_t masked = mode & ~(umask & 0777);
  if (!context.state.options.acl) co_return masked;
  const bool keeps = context.state.caches.attributes.KeepsFiles();
  if (keeps && context.state.caches.absent_xattrs.Known(directory.nodeid, AbsentXattr::kDefaultAcl,
                                                        Loop::Now())) {
    co_return masked;
  }
  if (masked == mode && !set_later) {
    if (keeps && context.state.caches.attributes.IsPromised(directory.nodeid)) {
      Start(LearnDefaultAcl(context, user, directory));
    }
    co_return masked;
  }
  Task<absl::StatusOr<std::string>> asking = DefaultAclOf(context, user, directory);
  absl::StatusOr<std::string> acl = co_await asking;
  if (!acl.ok()) co_return masked;
  co_return set_later ? ModeUnderAcl(mode, *acl) : mode;
}

}  // namespace dafs::fuse
