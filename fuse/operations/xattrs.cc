#include "fuse/operations/xattrs.h"

#include <linux/limits.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fuse/kernel/acls/default_acl.h"
#include "fuse/kernel/acls/nfs4_acl.h"
#include "fuse/kernel/errno.h"
#include "fuse/operations/shared/attribute_change.h"
#include "fuse/operations/shared/request_nodes.h"
#include "runtime/loop/loop.h"
#include "wire/protocol/attribute_names.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

// The attributes that the kernel and ls(1) read of every file, and that few files have. The kernel
// reads security.capability before it writes, and ACLs before it grants access to a user other than
// the owner. ls(1) reads the ACL and the SELinux label of each file.
struct Usual {
  AbsentXattr absent;
  std::string_view name;
};
constexpr Usual kUsual[] = {{AbsentXattr::kCapability, "security.capability"},
                            {AbsentXattr::kSelinux, "security.selinux"},
                            {AbsentXattr::kAccessAcl, kAccessAclXattr},
                            {AbsentXattr::kDefaultAcl, kDefaultAclXattr}};

std::optional<AbsentXattr> AbsentOf(std::string_view name) {
  for (const Usual& usual : kUsual) {
    if (usual.name == name) return usual.absent;
  }
  return std::nullopt;
}

bool IsPosixAcl(std::string_view name) {
  return name == kAccessAclXattr || name == kDefaultAclXattr;
}

// The errno of xattr(7) for `status`.
int XattrErrno(const absl::Status& status) {
  if (wire::DafsFromStatus(status) == wire::DafsStatus::kNoEnt) return ENODATA;
  if (wire::DafsFromStatus(status) == wire::DafsStatus::kFbig) return E2BIG;
  return ErrnoFromStatus(status);
}

// Answers with `value`; with its size if `room` is 0.
void ReplyValue(Call& call, std::string_view value, uint32_t room) {
  if (value.size() > XATTR_SIZE_MAX) {  // equals the limit of a list of names
    call.ReplyErrno(E2BIG);
  } else if (room == 0) {
    fuse_getxattr_out out = {};
    out.size = static_cast<uint32_t>(value.size());
    call.Reply({AsBytes(out)});
  } else if (value.size() > room) {
    call.ReplyErrno(ERANGE);
  } else {
    call.Reply({std::as_bytes(std::span(value))});
  }
}

}  // namespace

Task<absl::StatusOr<std::string>> XattrOperations::GetValue(const client::Identity& user,
                                                            const wire::FileHandle& file,
                                                            std::string_view name) {
  if (name != kNfs4AclXattr) {
    absl::StatusOr<std::string> value =
        co_await files_.Of(user).xattrs().GetXattr(user, file, wire::AttributeOf(name));
    co_return value;
  }
  absl::StatusOr<std::vector<wire::Ace>> acl = co_await files_.Of(user).acls().GetAcl(user, file);
  if (!acl.ok()) co_return acl.status();
  co_return EncodeNfs4Acl(*acl);
}

// Requests the list of names, which shows which of the usual attributes the file lacks.
Task<void> XattrOperations::LookForUsual(const client::Identity& user, const InodeView& node) {
  const absl::Time asked = Loop::Now();
  absl::StatusOr<std::vector<std::string>> names =
      co_await files_.Of(user).xattrs().ListXattrs(user, node.handle);
  if (wire::DafsFromStatus(names.status()) == wire::DafsStatus::kNotSupp) names.emplace();
  if (!names.ok()) co_return;  // the request for the attribute itself fails likewise
  for (const Usual& usual : kUsual) {
    if (std::find(names->begin(), names->end(), usual.name) == names->end()) {
      state_.caches.absent_xattrs.Note(node.nodeid, usual.absent, asked);
    }
  }
}

// Returns the errno for an attribute that the file does not have. Without SELinux, a missing label
// fails with EOPNOTSUPP, after which ls(1) requests no more labels. These requests took a fifth or
// more of the time of ls -l.
int XattrOperations::ErrnoOfAbsent(std::optional<AbsentXattr> usual) const {
  return usual == AbsentXattr::kSelinux && !state_.kernel.selinux ? EOPNOTSUPP : ENODATA;
}

// Whether no file of the mount can have an attribute of this name.
bool XattrOperations::IsNotSupported(std::string_view name) const {
  return wire::IsWireName(name, files_.name_rule()) &&
         (!wire::HasNameSpace(name) || (IsPosixAcl(name) && !state_.options.acl));
}

Task<void> XattrOperations::Getxattr(Call& call) {
  RequestReader in = call.reader();
  auto get = in.Take<fuse_getxattr_in>();
  std::string_view name = in.TakeString();
  std::optional<InodeView> node = NodeOf(state_, call, in);
  if (!node) co_return;
  if (IsNotSupported(name)) {
    call.ReplyErrno(EOPNOTSUPP);
    co_return;
  }
  const std::optional<AbsentXattr> usual = AbsentOf(name);
  if (usual == AbsentXattr::kAccessAcl) state_.listing_acls.Requested();
  const auto known_absent = [&] {
    return usual.has_value() &&
           state_.caches.absent_xattrs.Known(node->nodeid, *usual, Loop::Now());
  };
  if (known_absent() || !wire::IsWireName(name, files_.name_rule())) {  // such a name cannot be set
    call.ReplyErrno(ErrnoOfAbsent(usual));
    co_return;
  }
  CallerIdentity user = CallerOf(state_, call);
  if (usual.has_value()) {
    co_await LookForUsual(*user, *node);
    if (known_absent()) {
      call.ReplyErrno(ErrnoOfAbsent(usual));
      co_return;
    }
  }
  absl::StatusOr<std::string> value = co_await GetValue(*user, node->handle, name);
  if (value.ok()) {
    ReplyValue(call, *value, get.size);
  } else {
    ReplyNoValue(call, *node, name, value.status());
  }
}

void XattrOperations::ReplyNoValue(Call& call, const InodeView& node, std::string_view name,
                                   const absl::Status& status) {
  NoteGone(state_, call.nodeid(), status);
  // After ENODATA for an ACL the kernel checks the mode alone; any other error denies access. For a
  // removed directory, only the mode is known.
  const bool gone = node.type == wire::ObjectType::kDir &&
                    wire::DafsFromStatus(status) == wire::DafsStatus::kStale;
  const bool absent =
      IsPosixAcl(name) && (gone || wire::DafsFromStatus(status) == wire::DafsStatus::kNotSupp);
  const int error = absent ? ENODATA : XattrErrno(status);
  call.ReplyErrno(error == ENODATA ? ErrnoOfAbsent(AbsentOf(name)) : error);
}

Task<void> XattrOperations::Setxattr(Call& call) {
  RequestReader in = call.reader();
  // The structure before version 7.33, because INIT does not request FUSE_SETXATTR_EXT.
  const auto size = in.Take<uint32_t>();
  const auto flags = in.Take<uint32_t>();
  std::string_view name = in.TakeString();
  const std::span<const std::byte> bytes = in.rest();
  if (!in.ok() || bytes.size() != size) {
    call.ReplyErrno(EINVAL);
    co_return;
  }
  std::optional<InodeView> node = NodeOf(state_, call);
  if (!node) co_return;
  if (!wire::IsWireName(name, files_.name_rule()) || IsNotSupported(name)) {
    call.ReplyErrno(wire::IsWireName(name, files_.name_rule()) ? EOPNOTSUPP : EILSEQ);
    co_return;
  }
  CallerIdentity user = CallerOf(state_, call);
  std::string_view value(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (name == kNfs4AclXattr || IsPosixAcl(name)) {
    Task<void> preparing = context_.BeforeRightsChange(*user, *node);
    co_await preparing;
  }
  AttributeChange change(context_, *node);
  absl::Status status;
  if (name == kNfs4AclXattr) {
    std::optional<std::vector<wire::Ace>> acl = DecodeNfs4Acl(bytes);
    if (!acl.has_value()) {
      call.ReplyErrno(EINVAL);
      co_return;
    }
    status = co_await SetNfs4Acl(*user, *node, *std::move(acl));
  } else {
    client::XattrMode mode = client::XattrMode::kAny;
    if (flags & XATTR_CREATE) mode = client::XattrMode::kCreate;
    if (flags & XATTR_REPLACE) mode = client::XattrMode::kReplace;
    status = co_await files_.Of(*user).xattrs().SetXattr(*user, node->handle,
                                                         wire::AttributeOf(name), value, mode);
  }
  change.End();
  state_.caches.absent_xattrs.Forget(call.nodeid(), Loop::Now());
  call.ReplyErrno(XattrErrno(status));
}

Task<absl::Status> XattrOperations::SetNfs4Acl(const client::Identity& user, const InodeView& node,
                                               std::vector<wire::Ace> acl) {
  Task<absl::Status> task = files_.Of(user).acls().SetAcl(user, node.handle, std::move(acl));
  absl::Status status = co_await task;
  // Mode and POSIX ACL have changed, too, which the kernel does not know.
  context_.attributes.Forget(node.nodeid);
  co_return status;
}

Task<void> XattrOperations::Listxattr(Call& call) {
  RequestReader in = call.reader();
  auto get = in.Take<fuse_getxattr_in>();
  std::optional<InodeView> node = NodeOf(state_, call, in);
  if (!node) co_return;
  CallerIdentity user = CallerOf(state_, call);
  absl::StatusOr<std::vector<std::string>> names =
      co_await files_.Of(*user).xattrs().ListXattrs(*user, node->handle);
  std::string list;
  // If the server's file system has no attributes, the list is empty.
  if (wire::DafsFromStatus(names.status()) == wire::DafsStatus::kNotSupp) names.emplace();
  if (!names.ok()) {
    NoteGone(state_, call.nodeid(), names.status());
    call.ReplyErrno(XattrErrno(names.status()));
    co_return;
  }
  for (const std::string& wire_name : *names) {
    const auto name = wire::XattrOf(wire_name);
    if (!IsNotSupported(name)) list.append(name).push_back('\0');
  }
  ReplyValue(call, list, get.size);
}

Task<void> XattrOperations::Removexattr(Call& call) {
  RequestReader in = call.reader();
  std::string_view name = in.TakeString();
  std::optional<InodeView> node = NodeOf(state_, call, in);
  if (!node) co_return;
  const bool refused = IsNotSupported(name);
  if (name == kNfs4AclXattr || refused || !wire::IsWireName(name, files_.name_rule())) {
    call.ReplyErrno(name == kNfs4AclXattr || refused ? EOPNOTSUPP : ENODATA);
    co_return;
  }
  CallerIdentity user = CallerOf(state_, call);
  if (IsPosixAcl(name)) {
    Task<void> preparing = context_.BeforeRightsChange(*user, *node);
    co_await preparing;
  }
  AttributeChange change(context_, *node);
  absl::Status status =
      co_await files_.Of(*user).xattrs().RemoveXattr(*user, node->handle, wire::AttributeOf(name));
  change.End();
  // As on local file systems, removing an ACL that does not exist succeeds.
  if (IsPosixAcl(name) && wire::DafsFromStatus(status) == wire::DafsStatus::kNoEnt) {
    status = absl::OkStatus();
  }
  call.ReplyErrno(XattrErrno(status));
}

}  // namespace dafs::fuse
