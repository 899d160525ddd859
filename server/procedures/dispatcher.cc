// Maps each procedure to the function that executes it.
// Spec: WIRE 9.1.
#include "server/procedures/procedures.h"
#include "server/session/call.h"

namespace dafs::server {
namespace {

using wire::Proc;

void Null(Call& call) {
  wire::NullArgs args;
  if (!call.Decode(args)) return;
  call.Finish(wire::DafsStatus::kOk, args, wire::NullRes());
}

constexpr Procedure kMissing;

template <void (*kFunction)(Call&)>
constexpr Procedure kRun = {.run = kFunction};
template <dat::Task<void> (*kFunction)(Call&)>
constexpr Procedure kStart = {.start = kFunction};

// One switch over the protocol, hence its length.
constexpr const Procedure* FunctionOf(Proc proc) {
  switch (proc) {
    case Proc::kClientAuth:
      return &kRun<ClientAuth>;
    case Proc::kClientConnect:
      return &kRun<ClientConnect>;
    case Proc::kClientConnectAuth:
      return &kRun<ClientConnectAuth>;
    case Proc::kConnectBind:
      return &kRun<ConnectBind>;
    case Proc::kDisconnect:
      return &kRun<Disconnect>;
    case Proc::kRegisterCred:
      return &kStart<RegisterCred>;
    case Proc::kReleaseCred:
      return &kRun<ReleaseCred>;
    case Proc::kSecinfo:
      return &kRun<Secinfo>;
    case Proc::kServerAuth:
      return &kRun<ServerAuth>;
    case Proc::kCheckResponse:
      return &kRun<CheckResponse>;
    case Proc::kFetchResponse:
      return &kRun<FetchResponse>;
    case Proc::kDiscardResponses:
      return &kRun<DiscardResponses>;
    case Proc::kAccess:
      return &kRun<Access>;
    case Proc::kCacheHint:
      return &kRun<CacheHint>;
    case Proc::kClose:
      return &kRun<Close>;
    case Proc::kCommit:
      return &kStart<Commit>;
    case Proc::kCreate:
      return &kRun<Create>;
    case Proc::kGetFsattr:
      return &kRun<GetFsattr>;
    case Proc::kGetRootHandle:
      return &kRun<GetRootHandle>;
    case Proc::kGetattrInline:
      return &kRun<GetattrInline>;
    case Proc::kGetattrDirect:
      return &kStart<GetattrDirect>;
    case Proc::kLink:
      return &kRun<Link>;
    case Proc::kLock:
      return &kRun<Lock>;
    case Proc::kLockt:
      return &kRun<Lockt>;
    case Proc::kLocku:
      return &kRun<Locku>;
    case Proc::kLookup:
      return &kRun<Lookup>;
    case Proc::kLookupp:
      return &kRun<Lookupp>;
    case Proc::kNull:
      return &kRun<Null>;
    case Proc::kNverify:
      return &kRun<Nverify>;
    case Proc::kOpen:
      return &kStart<Open>;
    case Proc::kOpenDowngrade:
      return &kRun<OpenDowngrade>;
    case Proc::kOpenattr:
      return &kRun<Openattr>;
    case Proc::kReadInline:
      return &kStart<ReadInline>;
    case Proc::kReadDirect:
      return &kStart<ReadDirect>;
    case Proc::kReaddirInline:
      return &kStart<ReaddirInline>;
    case Proc::kReaddirDirect:
      return &kStart<ReaddirDirect>;
    case Proc::kReadlinkInline:
      return &kRun<ReadlinkInline>;
    case Proc::kReadlinkDirect:
      return &kStart<ReadlinkDirect>;
    case Proc::kRemove:
      return &kRun<Remove>;
    case Proc::kRename:
      return &kRun<Rename>;
    case Proc::kSetattrInline:
      return &kRun<SetattrInline>;
    case Proc::kSetattrDirect:
      return &kStart<SetattrDirect>;
    case Proc::kVerify:
      return &kRun<Verify>;
    case Proc::kBatchSubmit:
      return &kStart<BatchSubmit>;
    case Proc::kWriteInline:
      return &kStart<WriteInline>;
    case Proc::kWriteDirect:
      return &kStart<WriteDirect>;
    case Proc::kAppendInline:
      return &kStart<AppendInline>;
    case Proc::kAppendDirect:
      return &kStart<AppendDirect>;
    case Proc::kHurryUp:
      return &kRun<HurryUp>;
    case Proc::kOpenHandle:
      return &kRun<OpenHandle>;
    case Proc::kAllocate:
      return &kStart<Allocate>;
    case Proc::kSeek:
      return &kStart<Seek>;
    case Proc::kCopyRange:
      return &kStart<CopyRange>;
    case Proc::kRename2:
      return &kRun<Rename2>;
    case Proc::kOpenExecute:
      return &kRun<OpenExecute>;
    case Proc::kMakeNode:
      return &kRun<MakeNode>;
    case Proc::kOpenOwner:
      return &kRun<OpenOwner>;
    case Proc::kExtensions:
      return &kRun<Extensions>;
    // Not implemented by this server, or executed by clients.
    case Proc::kDelegpurge:
    case Proc::kDelegreturn:
    case Proc::kGetFencingList:
    case Proc::kSetFencingList:
    case Proc::kBcGetattr:
    case Proc::kBcNull:
    case Proc::kBcRecall:
    case Proc::kBcBatchCompletion:
      return &kMissing;
  }
  return &kMissing;
}

}  // namespace

constexpr ProcedureTable kProcedureTable = [] {
  ProcedureTable table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = FunctionOf(wire::kProcedures[i].number);
  return table;
}();

}  // namespace dafs::server
