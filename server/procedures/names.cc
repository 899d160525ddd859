// Procedures on names: GET_ROOT_HANDLE, LOOKUP, LOOKUPP, OPENATTR, CREATE, LINK, REMOVE, RENAME,
// READLINK, and the private RENAME2, MAKE_NODE and EXTENSIONS (wire/messages/posix.h).
// Spec: 6.5.9, 6.5.12, 6.5.17, 6.5.21, 6.5.22, 6.5.25, 6.5.31, 6.5.33, 6.5.34.
//
// They run on the worker. Names and inodes are normally in the kernel's caches, and the file
// system's journal absorbs changes, so a hand-over to the pool would cost more than it saves. If
// the disk is needed after all, the worker waits for it.
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/procedures/procedures.h"
#include "server/session/session.h"

namespace dafs::server {

using wire::DafsStatus;

namespace {

constexpr size_t kMostNamed = 8;  // exports in one log line

// Logs a lookup that ended above the exports or at the root of one: a mount of a directory that is
// not exported, or not to this client.
void SayExportRefused(Session& session, const wire::LookupArgs& args, const wire::LookupRes& res,
                      DafsStatus status) {
  if (res.component_count >= args.path.size()) return;
  const wire::FileHandle& last = res.component_count > 0 ? res.filehandle : args.directory;
  const std::optional<std::string> above = session.store().PathAboveExports(last);
  if (!above) return;
  const std::string& client = session.identity().client_id_string();
  const std::string name = absl::CHexEscape(
      absl::StrCat(*above == "/" ? "" : *above, "/", args.path[res.component_count].substr(0, 80)));
  if (status == DafsStatus::kAcces) {
    return session.refusals().Say(client, "address",
                                  absl::StrCat("export ", name,
                                               " does not admit its address; add that to "
                                               "the export's clients= to admit it"));
  }
  std::string exports;
  size_t named = 0;
  for (const Export& each : session.shared().options->exports) {
    absl::StrAppend(&exports, named == 0 ? "" : ", ", named < kMostNamed ? each.name : "...");
    if (++named > kMostNamed) break;
  }
  session.refusals().Say(client, "export",
                         absl::StrCat("there is no export ", name, "; the exports are ", exports));
}

}  // namespace

void GetRootHandle(Call& call) {
  wire::GetRootHandleArgs args;
  if (!call.Decode(args)) return;
  wire::GetRootHandleRes res;
  const DafsStatus status = call.session().store().GetRootHandle(call.caller(), &res.root_handle);
  call.Finish(status, args, res);
}

void Lookup(Call& call) {
  wire::LookupArgs args;
  if (!call.Decode(args)) return;
  wire::LookupRes res;
  const DafsStatus status = call.session().store().Lookup(call.caller(), args, &res);
  if (status == DafsStatus::kNoEnt || status == DafsStatus::kAcces) {
    SayExportRefused(call.session(), args, res, status);
  }
  call.Finish(status, args, res);
}

void Lookupp(Call& call) {
  wire::LookuppArgs args;
  if (!call.Decode(args)) return;
  wire::LookuppRes res;
  const DafsStatus status =
      call.session().store().Lookupp(call.caller(), args.filehandle, &res.filehandle);
  call.Finish(status, args, res);
}

void Openattr(Call& call) {
  wire::OpenattrArgs args;
  if (!call.Decode(args)) return;
  wire::OpenattrRes res;
  const DafsStatus status =
      call.session().store().Openattr(call.caller(), args.filehandle, &res.filehandle);
  call.Finish(status, args, res);
}

void Create(Call& call) {
  wire::CreateArgs args;
  if (!call.Decode(args)) return;
  wire::CreateRes res;
  const DafsStatus status = call.session().store().Create(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void Link(Call& call) {
  wire::LinkArgs args;
  if (!call.Decode(args)) return;
  wire::LinkRes res;
  const DafsStatus status = call.session().store().Link(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void Remove(Call& call) {
  wire::RemoveArgs args;
  if (!call.Decode(args)) return;
  wire::RemoveRes res;
  const DafsStatus status = call.session().store().Remove(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void Rename(Call& call) {
  wire::RenameArgs args;
  if (!call.Decode(args)) return;
  wire::RenameRes res;
  const DafsStatus status = call.session().store().Rename(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void Rename2(Call& call) {
  wire::Rename2Args args;
  if (!call.Decode(args)) return;
  wire::Rename2Res res;
  const DafsStatus status = call.session().store().Rename2(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void MakeNode(Call& call) {
  wire::MakeNodeArgs args;
  if (!call.Decode(args)) return;
  wire::MakeNodeRes res;
  const DafsStatus status = call.session().store().MakeNode(call.caller(), args, &res);
  call.Finish(status, args, res);
}

void ReadlinkInline(Call& call) {
  wire::ReadlinkInlineArgs args;
  if (!call.Decode(args)) return;
  wire::ReadlinkInlineRes res;
  const DafsStatus status =
      call.session().store().Readlink(call.caller(), args.filehandle, &res.link);
  call.Finish(status, args, res);
}

}  // namespace dafs::server
