#include "server/session/audited_requests.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/text.h"
#include "server/audit/audit_line.h"
#include "server/clients/client_name.h"
#include "server/session/own_pool.h"
#include "server/session/request.h"
#include "server/session/session.h"
#include "server/store/objects/handle.h"
#include "server/store/parts/inventory.h"
#include "server/store/store.h"
#include "wire/codec/codec.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/procedures.h"

namespace dafs::server {

using wire::DafsStatus;
using wire::Proc;

namespace {

// Attributes that say who may do what.
constexpr uint64_t kRights =
    wire::kFattrMode | wire::kFattrAcl | wire::kFattrOwner | wire::kFattrOwnerGroup;

// Whether the server has refused what the client may not do.
bool IsDenial(DafsStatus status) {
  switch (status) {
    case DafsStatus::kPerm:
    case DafsStatus::kAcces:
    case DafsStatus::kRofs:
    case DafsStatus::kBadHandle:
    case DafsStatus::kWrongSec:
    case DafsStatus::kClidInUse:
    case DafsStatus::kNotAuthorized:
    case DafsStatus::kNotAuthenticated:
      return true;
    default:
      return false;
  }
}

// Whether the request was not executed for a reason that says nothing about it, so that the client
// makes it again.
bool IsRepeated(DafsStatus status) {
  return status == DafsStatus::kDelay || status == DafsStatus::kGrace ||
         status == DafsStatus::kChainBroken || status == DafsStatus::kGssContinueInit;
}

std::optional<AuditClass> ClassOf(Proc proc) {
  switch (proc) {
    case Proc::kClientConnect:
    case Proc::kClientConnectAuth:
    case Proc::kClientAuth:
    case Proc::kConnectBind:
    case Proc::kDisconnect:
    case Proc::kRegisterCred:
      return AuditClass::kAuth;
    case Proc::kOpen:
    case Proc::kOpenHandle:
    case Proc::kOpenExecute:
    case Proc::kOpenDelegated:
    case Proc::kClose:
    case Proc::kDelegreturn:
      return AuditClass::kOpen;
    case Proc::kCreate:
    case Proc::kMakeNode:
    case Proc::kLink:
    case Proc::kRemove:
    case Proc::kRename:
    case Proc::kRename2:
    case Proc::kAllocate:
    case Proc::kCopyRange:
      return AuditClass::kChange;
    case Proc::kSetattrInline:  // RequestNames finds those that change no right
    case Proc::kSetattrDirect:
      return AuditClass::kAcl;
    case Proc::kSetFencingList:
      return AuditClass::kAdmin;
    default:
      return std::nullopt;
  }
}

// The arguments of a request that its record shows, besides its filehandle.
struct RequestNames {
  std::optional<std::string> name;      // in the directory of the filehandle
  std::optional<std::string> old_name;  // in `old_directory`
  wire::FileHandle old_directory;
  std::optional<std::string> user;    // that REGISTER_CRED names, or a password belongs to
  std::optional<std::string> client;  // that a connect request names
  std::optional<uint64_t> access;     // wire::kShare...
  std::optional<uint64_t> mode;
  bool changes_rights = true;
  bool creates = false;
};

std::string Joined(const wire::Pathname& path) {
  std::string joined;
  for (const std::string& component : path) {
    absl::StrAppend(&joined, joined.empty() ? "" : "/", component);
  }
  return joined;
}

template <class Args>
void TakeNames(const Args& args, RequestNames& names) {
  if constexpr (requires {
                  args.pathname;
                  args.open_type;
                }) {
    names.name = Joined(args.pathname);
    names.creates = args.open_type != wire::OpenType::kNoCreate;
  }
  if constexpr (requires { args.path; }) names.name = Joined(args.path);
  if constexpr (requires { args.share_access; }) names.access = args.share_access;
  if constexpr (requires { args.component; }) names.name = args.component;
  if constexpr (requires { args.target; }) names.name = args.target;
  if constexpr (requires { args.newname; }) names.name = args.newname;
  if constexpr (requires { args.sourcedir; }) {
    names.old_name = args.oldname;
    names.old_directory = args.sourcedir;
  }
  if constexpr (requires { args.source_object; }) names.old_directory = args.source_object;
  if constexpr (requires { args.client_id_string; }) names.client = args.client_id_string;
  if constexpr (Args::kProc == Proc::kSetattrInline) {
    const wire::FileAttributes& set = args.obj_attributes;
    names.changes_rights = (set.included & kRights) != 0;
    if ((set.included & wire::kFattrMode) != 0) names.mode = set.mode;
  }
  if constexpr (requires { args.auth_req; }) {
    if (args.auth_req.auth_type == wire::AuthType::kText) names.user = args.auth_req.auth_id;
  }
  if constexpr (Args::kProc == Proc::kRegisterCred) {
    names.user = args.cred_type == wire::CredType::kId
                     ? absl::StrCat("uid ", static_cast<uint32_t>(args.uid), " gid ",
                                    static_cast<uint32_t>(args.gid))
                     : args.name;
  }
}

// Decodes the arguments again: only requests that are recorded pay for it.
RequestNames NamesOf(const Request& request) {
  RequestNames names;
  wire::VisitProc(request.header().procedure, [&]<Proc kProc>() {
    typename wire::ProcTraits<kProc>::Args args;
    if (wire::DecodeArgs(request.message, request.verdict.order, args, request.verdict.names) ==
        DafsStatus::kOk) {
      TakeNames(args, names);
    }
  });
  return names;
}

// Adds the path of `name` in `directory`, or what is known of it.
void AddPath(AuditLine& line, std::string_view key, Store& store, const wire::FileHandle& directory,
             const std::optional<std::string>& name) {
  if (directory == wire::FileHandle()) return;
  const ObjectKey object = KeyOf(directory);
  std::string path = store.inventory().NameOf(object).path;
  if (path.empty()) {
    line.Add(absl::StrCat(Text(key), "_handle"), wire::HexOf(directory.fileid));
    if (name.has_value()) line.Add(absl::StrCat(Text(key), "_name"), *name);
    return;
  }
  if (name.has_value() && !name->empty()) absl::StrAppend(&path, "/", *name);
  line.Add(key, path);
}

// The client and what it has proven.
void AddClient(AuditLine& line, Session& session, const RequestNames& names) {
  const Connection& connection = session.connection();
  line.Add("peer", connection.peer_name());
  if (session.identity().known()) {
    line.Add("client", ClientName(session.identity().client_id_string()));
  } else if (names.client.has_value()) {
    line.Add("client", ClientName(*names.client));
  }
  const Peer& peer = connection.peer();
  if (peer.principal != nullptr) line.Add("principal", *peer.principal);
  if (peer.tls != nullptr) line.Add("tls", peer.tls->names.empty() ? "" : peer.tls->names.front());
}

}  // namespace

void AuditRequest(AuditLog& log, Session& session, const Request& request, DafsStatus status) {
  if (IsRepeated(status)) return;
  const Proc proc = request.header().procedure;
  const bool denied = IsDenial(status) || request.hidden;
  std::optional<AuditClass> of = ClassOf(proc);
  const bool wants_denial = denied && log.Wants(AuditClass::kDeny);
  const bool may_want = of.has_value() && (log.Wants(*of) || log.Wants(AuditClass::kChange));
  if (!wants_denial && !may_want) return;
  const RequestNames names = NamesOf(request);
  if (of == AuditClass::kAcl && !names.changes_rights) of = AuditClass::kChange;
  if (of == AuditClass::kOpen && names.creates && !log.Wants(AuditClass::kOpen)) {
    of = AuditClass::kChange;
  }
  if (!wants_denial && !log.Wants(*of)) return;
  AuditLine line(absl::Now(), wants_denial ? AuditClass::kDeny : *of, wire::Name(proc));
  line.Add("result", wire::Name(status));
  AddClient(line, session, names);
  // Otherwise it was refused before its user was looked up.
  if (request.verdict.status == DafsStatus::kOk && of != AuditClass::kAuth) {
    line.Add("uid", request.caller.uid);
    line.Add("gid", request.caller.gid);
  }
  // A member of a chain that has found or made a file has left it as the current one.
  const bool is_found = status == DafsStatus::kOk && request.chain != nullptr &&
                        request.verdict.proc->filehandle_after == wire::Current::kFromResult &&
                        (request.header().chain_flags & wire::kChfFh) != 0;
  AddPath(line, "path", session.store(), FileOf(request), is_found ? std::nullopt : names.name);
  if (names.old_directory != wire::FileHandle()) {
    AddPath(line, "from", session.store(), names.old_directory, names.old_name);
  }
  if (names.user.has_value()) line.Add("user", *names.user);
  if (names.access.has_value()) line.Add("access", *names.access);
  if (names.mode.has_value()) line.Add("mode", *names.mode);
  if (names.creates) line.Add("creates", 1);
  const bool closes = proc == Proc::kClose || proc == Proc::kDelegreturn;
  if (closes && status == DafsStatus::kOk) {
    if (FileOf(request) == wire::FileHandle()) {
      line.Add("path", session.store().inventory().NameOf(request.closed.key).path);
    }
    line.Add("read_bytes", request.closed.read_bytes);
    line.Add("written_bytes", request.closed.written_bytes);
  }
  log.Write(std::move(line).Take());
}

void AuditLoss(AuditLog& log, Session& session, std::string_view why) {
  if (!log.Wants(AuditClass::kAuth)) return;
  AuditLine line(absl::Now(), AuditClass::kAuth, "SESSION_LOST");
  AddClient(line, session, {});
  line.Add("reason", why);
  log.Write(std::move(line).Take());
}

}  // namespace dafs::server
