// Extended attributes: GETXATTR, SETXATTR, LISTXATTR, REMOVEXATTR; and the mode of new objects,
// which a default ACL decides. Spec: 4.1.5, 6.5.25; FUSE-FACTS 5, 11.
//
// Names go by wire/protocol/attribute_names.h; one without a name space is refused, as on ext4, and
// with the option noacl those of POSIX ACLs are. "system.nfs4_acl" is the ACL attribute. The kernel
// asks for security.capability before it writes and for ACLs before it lets somebody in who is not
// the owner, ls(1) for ACL and SELinux label of each file: that there are none is remembered
// (InodeTable::KnownAbsent), also from a listing that came with ACLs (directory.cc).
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

// What the kernel and ls(1) ask about every file.
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

// What xattr(7) calls what happened.
int XattrErrno(const absl::Status& status) {
  if (Is(status, wire::DafsStatus::kNoEnt)) return ENODATA;
  if (Is(status, wire::DafsStatus::kFbig)) return E2BIG;
  return ErrnoFromStatus(status);
}

// Answers with `value`, or its size if that is what was asked for (`room` 0).
void ReplyValue(Call& call, std::string_view value, uint32_t room) {
  if (value.size() > XATTR_SIZE_MAX) {  // as many as there may be bytes of names
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

// Without SELinux ls(1) is told that labels are not supported, where a file has none: it asks for
// no more then. For each file that was a fifth of what ls -l costs, and more.
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
  if (known() || !wire::IsWireName(name, files_.name_rule())) {  // what cannot be set is not there
    const bool ahead = usual.has_value() && WantsAhead();
    Caller who = ahead ? CallerOf(call) : nullptr;
    call.ReplyErrno(ErrnoOfAbsent(usual));
    if (ahead) LookAhead(who, *usual);  // the program need not wait for that
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
  // The kernel takes "no such ACL" for the mode alone, and any other error for a refusal. Of a
  // directory that was removed its mode is all that is known.
  const bool gone =
      node->type == wire::ObjectType::kDir && Is(value.status(), wire::DafsStatus::kStale);
  const bool absent = IsPosixAcl(name) && (gone || Is(value.status(), wire::DafsStatus::kNotSupp));
  NoteGone(call.nodeid(), value.status());
  const int error = absent ? ENODATA : XattrErrno(value.status());
  call.ReplyErrno(error == ENODATA ? ErrnoOfAbsent(usual) : error);
}

// ls -l goes through a directory in the order of its listing: the files behind this one are asked
// about in one piece, the next ones before it has come to the last of them. Without a cache time
// nothing may be known before it is asked for.
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

// One list tells about all the usual ones; few files have any.
dat::Task<void> Operations::LookForUsual(const client::Identity& who, const InodeView& node) {
  const absl::Time asked = dat::Loop::Now();
  absl::StatusOr<std::vector<std::string>> names = co_await files_.ListXattrs(who, node.handle);
  if (Is(names.status(), wire::DafsStatus::kNotSupp)) names = std::vector<std::string>();
  if (!names.ok()) co_return;  // the question itself will meet the same error
  for (const Usual& usual : kUsual) {
    if (std::find(names->begin(), names->end(), usual.name) == names->end()) {
      state_.inodes.NoteAbsent(node.nodeid, usual.absent, asked);
    }
  }
}

dat::Task<void> Operations::Setxattr(Call& call) {
  RequestReader in = call.reader();
  // The structure of before 7.33, since we do not ask for FUSE_SETXATTR_EXT.
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
  // The kernel does not know that mode and POSIX ACL have changed with it.
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
  // As a file system without attributes lists none.
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
  // As on local file systems: an ACL that is not there can be taken away.
  if (IsPosixAcl(name) && Is(status, wire::DafsStatus::kNoEnt)) status = absl::OkStatus();
  call.ReplyErrno(XattrErrno(status));
}

// ---- New objects -----------------------------------------------------------------------------

// As on ext4: a default ACL of the directory takes the umask's place. The server's file system
// applies it to the mode that CREATE or OPEN names. Sockets, FIFOs and devices have theirs set
// behind CREATE, which would undo it: they are given what it leaves.
dat::Task<uint32_t> Operations::ModeOfNew(const Call& call, const client::Identity& who,
                                          const InodeView& directory, uint32_t mode,
                                          uint32_t umask) {
  const uint32_t type = mode & S_IFMT;
  const bool set_later = type != 0 && type != S_IFREG && type != S_IFDIR;
  const uint32_t masked = mode & ~(umask & 0777);
  if ((masked == mode && !set_later) || !state_.options.acl) co_return masked;
  const absl::Time asked = dat::Loop::Now();
  // Without cache times what is known of the directory may be older than this call (ReplyPassing).
  const bool keeps = state_.inodes.KeepsFiles();
  if (keeps && state_.inodes.KnownAbsent(directory.nodeid, Absent::kDefaultAcl, asked)) {
    co_return masked;
  }
  std::optional<AclAhead::Acl> acl = acl_ahead_.Take(call.header().pid, directory.nodeid, asked);
  if (!acl.has_value()) {
    acl = co_await files_.GetXattr(who, directory.handle, kDefaultAclXattr);
    if (!keeps) acl_ahead_.WaitedFor(directory.nodeid);
  }
  if (acl->ok()) co_return set_later ? ModeUnderAcl(mode, **acl) : mode;
  const bool none =
      Is(acl->status(), wire::DafsStatus::kNoEnt) || Is(acl->status(), wire::DafsStatus::kNotSupp);
  if (none && keeps) {
    state_.inodes.NoteAbsent(directory.nodeid, Absent::kDefaultAcl, asked);
  }
  co_return masked;
}

// For the look-up `call` by somebody who is about to make something: fuse/cache/acl_ahead.h. It
// leaves with the look-up.
void Operations::AskAclAhead(const Call& call, const Caller& who, const InodeView& directory) {
  if (state_.inodes.KeepsFiles() || !state_.options.acl) return;
  const uint32_t thread = call.header().pid;
  acl_ahead_.LookUp(thread);
  if (!acl_ahead_.Expected(directory.nodeid)) return;
  if (callers_.AsksFor(thread) != Asks::kMayMake) return;
  const uint64_t question = acl_ahead_.Ask(thread, directory.nodeid, dat::Loop::Now());
  dat::Start(AskAclAhead(who, directory, thread, question));
}

dat::Task<void> Operations::AskAclAhead(Caller who, InodeView directory, uint32_t thread,
                                        uint64_t question) {
  AclAhead::Acl acl = co_await files_.GetXattr(*who, directory.handle, kDefaultAclXattr,
                                               /*can_wait=*/true);
  acl_ahead_.Answered(thread, question, std::move(acl), dat::Loop::Now());
}

// What is new has no capabilities and no label, and no ACL unless its directory has one to inherit.
void Operations::NoteNew(uint64_t nodeid, uint64_t directory, absl::Time made) {
  state_.inodes.NoteAbsent(nodeid, Absent::kCapability, made);
  state_.inodes.NoteAbsent(nodeid, Absent::kSelinux, made);
  if (!state_.inodes.KeepsFiles()) return;  // nothing is known of the directory: see ModeOfNew
  if (!state_.inodes.KnownAbsent(directory, Absent::kDefaultAcl, made)) return;
  state_.inodes.NoteAbsent(nodeid, Absent::kAccessAcl, made);
  state_.inodes.NoteAbsent(nodeid, Absent::kDefaultAcl, made);
}

}  // namespace dafs::fuse
