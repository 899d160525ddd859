// Extended attributes: GETXATTR, SETXATTR, LISTXATTR, REMOVEXATTR; and the mode of new objects,
// which depends on a default ACL. Spec: 4.1.5, 6.5.25; FUSE-FACTS 5, 11.
//
// wire/protocol/attribute_names.h maps the names. A name without a name space is refused, as on
// ext4; with noacl, so are the names of POSIX ACLs. "system.nfs4_acl" is the ACL attribute.
//
// The kernel reads security.capability before it writes, and ACLs before it grants access to a user
// other than the owner. ls(1) reads the ACL and the SELinux label of each file. If a file does not
// have one of these, that is cached (InodeTable::KnownAbsent), also from a listing with ACLs
// (directory.cc).
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fuse/kernel/default_acl.h"
#include "fuse/kernel/errno.h"
#include "fuse/kernel/nfs4_acl.h"
#include "fuse/operations/operations.h"
#include "wire/protocol/attribute_names.h"
#include "wire/protocol/name_check.h"
#include "wire/protocol/status.h"

namespace dafs::fuse {
namespace {

constexpr std::string_view kAccessAclXattr = "system.posix_acl_access";

// The attributes that the kernel and ls(1) read of every file.
struct Usual {
  Absent absent;
  std::string_view name;
};
constexpr Usual kUsual[] = {{Absent::kCapability, "security.capability"},
                            {Absent::kSelinux, "security.selinux"},
                            {Absent::kAccessAcl, kAccessAclXattr},
                            {Absent::kDefaultAcl, kDefaultAclXattr}};

std::optional<Absent> AbsentOf(std::string_view name) {
  for (const Usual& usual : kUsual) {
    if (usual.name == name) return usual.absent;
  }
  return std::nullopt;
}

bool IsPosixAcl(std::string_view name) {
  return name == kAccessAclXattr || name == kDefaultAclXattr;
}

bool Is(const absl::Status& status, wire::DafsStatus code) {
  return !status.ok() && wire::HasDafsStatus(status) && wire::DafsFromStatus(status) == code;
}

// The errno of xattr(7) for `status`.
int XattrErrno(const absl::Status& status) {
  if (Is(status, wire::DafsStatus::kNoEnt)) return ENODATA;
  if (Is(status, wire::DafsStatus::kFbig)) return E2BIG;
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

dat::Task<absl::StatusOr<std::string>> Operations::GetValue(const client::Identity& who,
                                                            const wire::FileHandle& file,
                                                            std::string_view name) {
  if (name != kNfs4AclXattr) {
    absl::StatusOr<std::string> value =
        co_await files_.GetXattr(who, file, wire::AttributeOf(name));
    co_return value;
  }
  absl::StatusOr<std::vector<wire::Ace>> acl = co_await files_.GetAcl(who, file);
  if (!acl.ok()) co_return acl.status();
  co_return EncodeNfs4Acl(*acl);
}

// Returns the errno for an attribute that the file does not have. Without SELinux, a missing label
// fails with EOPNOTSUPP, after which ls(1) requests no more labels. These requests took a fifth or
// more of the time of ls -l.
int Operations::ErrnoOfAbsent(std::optional<Absent> usual) const {
  return usual == Absent::kSelinux && !state_.selinux ? EOPNOTSUPP : ENODATA;
}

// Whether no file of the mount can have an attribute of this name.
bool Operations::IsNotSupported(std::string_view name) const {
  return wire::IsWireName(name, files_.name_rule()) &&
         (!wire::HasNameSpace(name) || (IsPosixAcl(name) && !state_.options.acl));
}

dat::Task<void> Operations::Getxattr(Call& call) {
  RequestReader in = call.reader();
  auto get = in.Take<fuse_getxattr_in>();
  std::string_view name = in.TakeString();
  std::optional<InodeView> node = NodeOf(call, in);
  if (!node) co_return;
  const std::optional<Absent> usual = AbsentOf(name);
  if (IsNotSupported(name)) {
    call.ReplyErrno(EOPNOTSUPP);
    co_return;
  }
  const auto known = [this, usual, nodeid = call.nodeid()] {
    return usual.has_value() && state_.inodes.KnownAbsent(nodeid, *usual, dat::Loop::Now());
  };
  if (usual.has_value()) walk_.At(call.nodeid(), state_.inodes.NextListed(walk_.last()));
  if (usual == Absent::kAccessAcl && walk_.in_order()) state_.acl_habit.Asked();
  if (known() || !wire::IsWireName(name, files_.name_rule())) {  // such a name cannot be set
    const bool ahead = usual.has_value() && WantsAhead();
    Caller who = ahead ? CallerOf(call) : nullptr;
    call.ReplyErrno(ErrnoOfAbsent(usual));
    if (ahead) LookAhead(who, *usual);  // after the answer, so that the program does not wait
    co_return;
  }
  Caller who = CallerOf(call);
  if (usual.has_value()) {
    if (WantsAhead()) LookAhead(who, *usual);
    if (dat::Pending<bool>* asked = asked_ahead_.Await(call.nodeid())) co_await *asked;
    if (!known()) co_await LookForUsual(*who, *node);
    if (known()) {
      call.ReplyErrno(ErrnoOfAbsent(usual));
      co_return;
    }
    walk_.Vain();
  }
  absl::StatusOr<std::string> value = co_await GetValue(*who, node->handle, name);
  if (value.ok()) {
    ReplyValue(call, *value, get.size);
    co_return;
  }
  // After ENODATA for an ACL the kernel checks the mode alone; any other error denies access. For a
  // removed directory, only the mode is known.
  const bool gone =
      node->type == wire::ObjectType::kDir && Is(value.status(), wire::DafsStatus::kStale);
  const bool absent = IsPosixAcl(name) && (gone || Is(value.status(), wire::DafsStatus::kNotSupp));
  NoteGone(call.nodeid(), value.status());
  const int error = absent ? ENODATA : XattrErrno(value.status());
  call.ReplyErrno(error == ENODATA ? ErrnoOfAbsent(usual) : error);
}

// ls -l reads the attributes of files in the order of the listing. So those of the next files are
// prefetched together, and more before ls reaches the last of them. Without a cache time, nothing
// may be prefetched.
bool Operations::WantsAhead() const { return walk_.Wanted() > 0 && state_.inodes.KeepsFiles(); }

void Operations::LookAhead(const Caller& who, Absent attribute) {
  const client::Files::Gathering gathering(files_, true);
  const int wanted = walk_.Wanted();
  uint64_t nodeid = walk_.from();
  int files = 0;
  for (; files < wanted; ++files) {
    const uint64_t next = state_.inodes.NextListed(nodeid);
    std::optional<InodeView> node = state_.inodes.Find(next);
    if (!node.has_value()) break;
    nodeid = next;
    if (node->type != wire::ObjectType::kReg && node->type != wire::ObjectType::kDir) continue;
    if (state_.inodes.KnownAbsent(nodeid, attribute, dat::Loop::Now())) continue;
    dat::Start(LookAheadAt(who, *node));
  }
  walk_.Asked(files, nodeid);
}

dat::Task<void> Operations::LookAheadAt(Caller who, InodeView node) {
  QuestionsOut::Question question{.nodeid = node.nodeid};
  asked_ahead_.Begin(question);
  co_await LookForUsual(*who, node);
  asked_ahead_.End(question);
}

// One list of names shows which of the usual attributes are absent; few files have any.
dat::Task<void> Operations::LookForUsual(const client::Identity& who, const InodeView& node) {
  const absl::Time asked = dat::Loop::Now();
  absl::StatusOr<std::vector<std::string>> names = co_await files_.ListXattrs(who, node.handle);
  if (Is(names.status(), wire::DafsStatus::kNotSupp)) names = std::vector<std::string>();
  if (!names.ok()) co_return;  // the request for the attribute itself fails likewise
  for (const Usual& usual : kUsual) {
    if (std::find(names->begin(), names->end(), usual.name) == names->end()) {
      state_.inodes.NoteAbsent(node.nodeid, usual.absent, asked);
    }
  }
}

dat::Task<void> Operations::Setxattr(Call& call) {
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
  std::optional<InodeView> node = NodeOf(call);
  if (!node) co_return;
  if (!wire::IsWireName(name, files_.name_rule()) || IsNotSupported(name)) {
    call.ReplyErrno(wire::IsWireName(name, files_.name_rule()) ? EOPNOTSUPP : EILSEQ);
    co_return;
  }
  Caller who = CallerOf(call);
  std::string_view value(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (name == kNfs4AclXattr || IsPosixAcl(name)) {
    dat::Task<void> preparing = BeforeRightsChange(*who, *node);
    co_await preparing;
  }
  Touch(call.nodeid());
  absl::Status status;
  if (name == kNfs4AclXattr) {
    std::optional<std::vector<wire::Ace>> acl = DecodeNfs4Acl(bytes);
    if (!acl.has_value()) {
      call.ReplyErrno(EINVAL);
      co_return;
    }
    status = co_await SetNfs4Acl(*who, *node, *std::move(acl));
  } else {
    client::XattrMode mode = client::XattrMode::kAny;
    if (flags & XATTR_CREATE) mode = client::XattrMode::kCreate;
    if (flags & XATTR_REPLACE) mode = client::XattrMode::kReplace;
    status = co_await files_.SetXattr(*who, node->handle, wire::AttributeOf(name), value, mode);
  }
  Touch(call.nodeid());
  state_.inodes.ForgetAbsent(call.nodeid(), dat::Loop::Now());
  call.ReplyErrno(XattrErrno(status));
}

dat::Task<absl::Status> Operations::SetNfs4Acl(const client::Identity& who, const InodeView& node,
                                               std::vector<wire::Ace> acl) {
  dat::Task<absl::Status> task = files_.SetAcl(who, node.handle, std::move(acl));
  absl::Status status = co_await task;
  // Mode and POSIX ACL have changed, too, which the kernel does not know.
  ForgetAttributes(node.nodeid);
  co_return status;
}

dat::Task<void> Operations::Listxattr(Call& call) {
  RequestReader in = call.reader();
  auto get = in.Take<fuse_getxattr_in>();
  std::optional<InodeView> node = NodeOf(call, in);
  if (!node) co_return;
  Caller who = CallerOf(call);
  absl::StatusOr<std::vector<std::string>> names = co_await files_.ListXattrs(*who, node->handle);
  std::string list;
  // If the server's file system has no attributes, the list is empty.
  if (Is(names.status(), wire::DafsStatus::kNotSupp)) names = std::vector<std::string>();
  if (!names.ok()) {
    NoteGone(call.nodeid(), names.status());
    call.ReplyErrno(XattrErrno(names.status()));
    co_return;
  }
  for (const std::string& told : *names) {
    const auto name = wire::XattrOf(told);
    if (!IsNotSupported(name)) list.append(name).push_back('\0');
  }
  ReplyValue(call, list, get.size);
}

dat::Task<void> Operations::Removexattr(Call& call) {
  RequestReader in = call.reader();
  std::string_view name = in.TakeString();
  std::optional<InodeView> node = NodeOf(call, in);
  if (!node) co_return;
  const bool refused = IsNotSupported(name);
  if (name == kNfs4AclXattr || refused || !wire::IsWireName(name, files_.name_rule())) {
    call.ReplyErrno(name == kNfs4AclXattr || refused ? EOPNOTSUPP : ENODATA);
    co_return;
  }
  Caller who = CallerOf(call);
  if (IsPosixAcl(name)) {
    dat::Task<void> preparing = BeforeRightsChange(*who, *node);
    co_await preparing;
  }
  Touch(call.nodeid());
  absl::Status status = co_await files_.RemoveXattr(*who, node->handle, wire::AttributeOf(name));
  Touch(call.nodeid());
  // As on local file systems, removing an ACL that does not exist succeeds.
  if (IsPosixAcl(name) && Is(status, wire::DafsStatus::kNoEnt)) status = absl::OkStatus();
  call.ReplyErrno(XattrErrno(status));
}

// ---- New objects -----------------------------------------------------------------------------

// As on ext4, a default ACL of the directory replaces the umask. The server's file system applies
// the ACL to the mode of CREATE or OPEN. The mode of sockets, FIFOs and devices is set after
// CREATE, which would undo that, so here the ACL is applied to their mode.
dat::Task<uint32_t> Operations::ModeOfNew(const client::Identity& who, const InodeView& directory,
                                          uint32_t mode, uint32_t umask) {
  const uint32_t type = mode & S_IFMT;
  const bool set_later = type != 0 && type != S_IFREG && type != S_IFDIR;
  const uint32_t masked = mode & ~(umask & 0777);
  if ((masked == mode && !set_later) || !state_.options.acl) co_return masked;
  const absl::Time asked = dat::Loop::Now();
  const bool keeps = state_.inodes.KeepsFiles();
  if (keeps && state_.inodes.KnownAbsent(directory.nodeid, Absent::kDefaultAcl, asked)) {
    co_return masked;
  }
  absl::StatusOr<std::string> acl =
      co_await files_.GetXattr(who, directory.handle, kDefaultAclXattr);
  if (acl.ok()) co_return set_later ? ModeUnderAcl(mode, *acl) : mode;
  const bool none =
      Is(acl.status(), wire::DafsStatus::kNoEnt) || Is(acl.status(), wire::DafsStatus::kNotSupp);
  if (none && keeps) {
    state_.inodes.NoteAbsent(directory.nodeid, Absent::kDefaultAcl, asked);
  }
  co_return masked;
}

// A new object has no capabilities and no label. It has no ACL unless its directory has a default
// ACL to inherit.
void Operations::NoteNew(uint64_t nodeid, uint64_t directory, absl::Time made) {
  state_.inodes.NoteAbsent(nodeid, Absent::kCapability, made);
  state_.inodes.NoteAbsent(nodeid, Absent::kSelinux, made);
  if (!state_.inodes.KeepsFiles()) return;  // the directory's ACL is unknown: see ModeOfNew
  if (!state_.inodes.KnownAbsent(directory, Absent::kDefaultAcl, made)) return;
  state_.inodes.NoteAbsent(nodeid, Absent::kAccessAcl, made);
  state_.inodes.NoteAbsent(nodeid, Absent::kDefaultAcl, made);
}

}  // namespace dafs::fuse
