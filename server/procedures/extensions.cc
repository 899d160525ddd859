// EXTENSIONS, private (R15). Spec: wire/messages/posix.h.
#include "server/procedures/handler.h"
#include "server/store/holdings/exported_cache.h"

namespace dafs::server {
namespace {

using wire::DafsStatus;

constexpr uint64_t kOfSession = wire::kExtensionByteNames | wire::kExtensionKeepAtime |
                                wire::kExtensionReadKeepsAtime | wire::kExtensionLockWaits |
                                wire::kExtensionOpenXorDelegation | wire::kExtensionAttributesAfter;
constexpr uint64_t kOfExport = wire::kExtensionSquashed | wire::kExtensionSquashedInPart;

// Adds to `granted` what the export of args.filehandle does with the client's users.
DafsStatus ReportSquashes(Call& call, const wire::ExtensionsArgs& args, uint64_t* granted) {
  Session& session = call.session();
  Squashes squashes = Squashes::kNobody;
  const DafsStatus status =
      session.store().names().WhoIsSquashed(call.caller(), args.filehandle, &squashes);
  // An untrusted client has only the anonymous credentials.
  if (!session.identity().trusted() || squashes == Squashes::kEverybody) {
    *granted |= args.wanted & wire::kExtensionSquashed;
  } else if (squashes == Squashes::kEverybodyInSome) {
    *granted |= args.wanted & wire::kExtensionSquashedInPart;
  }
  return status;
}

// A client with references reads the blocks of an export for any of its users. So it is one that
// the server believes about them, and none that has proven to be a single principal.
bool MayHaveReferences(Session& session) {
  const wire::AuthType method = session.identity().auth_type();
  return session.store().exported().on() && session.identity().trusted() &&
         (method == wire::AuthType::kNone || method == wire::AuthType::kDefault);
}

DafsStatus Extensions(Call& call, const wire::ExtensionsArgs& args, wire::ExtensionsRes* res) {
  res->granted = args.wanted & kOfSession;
  if (MayHaveReferences(call.session())) {
    res->granted |= args.wanted & wire::kExtensionReferences;
  }
  if (call.session().shared().ids != nullptr) {
    res->granted |= args.wanted & wire::kExtensionOwnerNames;
  }
  call.session().terms().Grant(res->granted);
  call.session().terms().SetProgramVersion(wire::ProgramVersionOf(args.wanted));
  if ((args.wanted & kOfExport) == 0 || args.filehandle == wire::FileHandle()) {
    return DafsStatus::kOk;
  }
  return ReportSquashes(call, args, &res->granted);
}

}  // namespace

constexpr Procedure kExtensionsHandler = kAtOnce<Extensions>;

}  // namespace dafs::server
