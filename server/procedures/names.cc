// Procedures on names: GET_ROOT_HANDLE, LOOKUP, LOOKUPP, OPENATTR, CREATE, LINK, REMOVE, RENAME,
// READLINK, and the private RENAME2 and MAKE_NODE (wire/messages/posix.h).
// Spec: 6.5.9, 6.5.12, 6.5.17, 6.5.21, 6.5.22, 6.5.25, 6.5.31, 6.5.33, 6.5.34.
//
// They run on the worker. Names and inodes are normally in the kernel's caches, and the file
// system's journal absorbs changes, so a hand-over to the pool would cost more than it saves. If
// the disk is needed after all, the worker waits for it.
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/procedures/handler.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

constexpr size_t kMostNamed = 8;  // exports in one log line

// Logs a lookup that ended above the exports or at the root of one: a mount of a directory that is
// not exported, or not to this client.
void SayExportRefused(Session& session, const wire::LookupArgs& args, const wire::LookupRes& res,
                      bool is_hidden) {
  if (res.component_count >= args.path.size()) return;
  const wire::FileHandle& last = res.component_count > 0 ? res.filehandle : args.directory;
  const std::optional<std::string> above = session.store().names().PathAboveExports(last);
  if (!above) return;
  const std::string& client = session.identity().client_id_string();
  const std::string name = absl::CHexEscape(
      absl::StrCat(*above == "/" ? "" : *above, "/", args.path[res.component_count].substr(0, 80)));
  if (is_hidden) return session.refusals().SayHidden(client, name);
  std::string exports;
  size_t named = 0;
  for (const Export* each : session.store().exports().Served()) {
    absl::StrAppend(&exports, named == 0 ? "" : ", ", named < kMostNamed ? each->name : "...");
    if (++named > kMostNamed) break;
  }
  session.refusals().Say(client, "export",
                         absl::StrCat("there is no export ", name, "; the exports are ", exports));
}

DafsStatus GetRootHandle(Call& call, const wire::GetRootHandleArgs&, wire::GetRootHandleRes* res) {
  return call.session().store().names().GetRootHandle(call.caller(), &res->root_handle);
}

DafsStatus Lookup(Call& call, const wire::LookupArgs& args, wire::LookupRes* res) {
  const DafsStatus status = call.session().store().names().Lookup(call.caller(), args, res);
  if (status == DafsStatus::kNoEnt) {
    SayExportRefused(call.session(), args, *res, *call.caller().hidden);
  }
  return status;
}

DafsStatus Lookupp(Call& call, const wire::LookuppArgs& args, wire::LookuppRes* res) {
  return call.session().store().names().Lookupp(call.caller(), args.filehandle, &res->filehandle);
}

DafsStatus Openattr(Call& call, const wire::OpenattrArgs& args, wire::OpenattrRes* res) {
  return call.session().store().names().Openattr(call.caller(), args.filehandle, &res->filehandle);
}

DafsStatus Readlink(Call& call, const wire::ReadlinkInlineArgs& args,
                    wire::ReadlinkInlineRes* res) {
  return call.session().store().names().Readlink(call.caller(), args.filehandle, &res->link);
}

}  // namespace

constexpr Procedure kGetRootHandleHandler = kAtOnce<GetRootHandle>;
constexpr Procedure kLookupHandler = kAtOnce<Lookup>;
constexpr Procedure kLookuppHandler = kAtOnce<Lookupp>;
constexpr Procedure kOpenattrHandler = kAtOnce<Openattr>;
constexpr Procedure kCreateHandler = kModifies<&NameProcedures::Create>;
constexpr Procedure kLinkHandler = kModifies<&NameProcedures::Link>;
constexpr Procedure kRemoveHandler = kModifies<&NameProcedures::Remove>;
constexpr Procedure kRenameHandler = kModifies<&NameProcedures::Rename>;
constexpr Procedure kRename2Handler = kModifies<&NameProcedures::Rename2>;
constexpr Procedure kMakeNodeHandler = kModifies<&NameProcedures::MakeNode>;
constexpr Procedure kReadlinkInlineHandler = kAtOnce<Readlink>;

}  // namespace dafs::server
