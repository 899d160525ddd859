// All messages, and which arguments and results belong to which procedure.
// The other half of the table in wire/protocol/procedures.h. Tests check one against the other.
#pragma once

#include "wire/messages/attributes.h"
#include "wire/messages/back_control.h"
#include "wire/messages/batch.h"
#include "wire/messages/fencing.h"
#include "wire/messages/locks.h"
#include "wire/messages/namespace.h"
#include "wire/messages/open_close.h"
#include "wire/messages/posix.h"
#include "wire/messages/ranges.h"
#include "wire/messages/read_write.h"
#include "wire/messages/readdir.h"
#include "wire/messages/response_cache.h"
#include "wire/messages/session.h"
#include "wire/protocol/procedures.h"

// Calls X(Lookup) for every procedure: Proc::kLookup, LookupArgs, LookupRes.
// clang-format off
#define DAFS_WIRE_FOR_EACH_PROC(X) \
  X(ClientAuth) \
  X(ClientConnect) \
  X(ClientConnectAuth) \
  X(ConnectBind) \
  X(Disconnect) \
  X(RegisterCred) \
  X(ReleaseCred) \
  X(Secinfo) \
  X(ServerAuth) \
  X(CheckResponse) \
  X(FetchResponse) \
  X(DiscardResponses) \
  X(Access) \
  X(CacheHint) \
  X(Close) \
  X(Commit) \
  X(Create) \
  X(Delegpurge) \
  X(Delegreturn) \
  X(GetFsattr) \
  X(GetRootHandle) \
  X(GetattrInline) \
  X(GetattrDirect) \
  X(Link) \
  X(Lock) \
  X(Lockt) \
  X(Locku) \
  X(Lookup) \
  X(Lookupp) \
  X(Null) \
  X(Nverify) \
  X(Open) \
  X(OpenDowngrade) \
  X(Openattr) \
  X(ReadInline) \
  X(ReadDirect) \
  X(ReaddirInline) \
  X(ReaddirDirect) \
  X(ReadlinkInline) \
  X(ReadlinkDirect) \
  X(Remove) \
  X(Rename) \
  X(SetattrInline) \
  X(SetattrDirect) \
  X(Verify) \
  X(BatchSubmit) \
  X(WriteInline) \
  X(WriteDirect) \
  X(BcGetattr) \
  X(BcNull) \
  X(BcRecall) \
  X(BcBatchCompletion) \
  X(AppendInline) \
  X(AppendDirect) \
  X(GetFencingList) \
  X(SetFencingList) \
  X(HurryUp) \
  X(OpenHandle) \
  X(Rename2) \
  X(OpenExecute) \
  X(MakeNode) \
  X(Allocate) \
  X(Seek) \
  X(CopyRange) \
  X(OpenOwner) \
  X(Extensions)
// clang-format on

namespace dafs::wire {

// ProcTraits<Proc::kLookup>::Args is LookupArgs, ::Res is LookupRes.
template <Proc>
struct ProcTraits;
#define DAFS_WIRE_TRAITS(name)       \
  template <>                        \
  struct ProcTraits<Proc::k##name> { \
    using Args = name##Args;         \
    using Res = name##Res;           \
  };
DAFS_WIRE_FOR_EACH_PROC(DAFS_WIRE_TRAITS)
#undef DAFS_WIRE_TRAITS

// The result type of an argument type.
template <class Args>
using ResOf = typename ProcTraits<Args::kProc>::Res;

// Calls `f.template operator()<Proc::kX>()` for the X that equals `proc`. Returns false if there is
// none. One switch over the protocol.
template <class F>
bool VisitProc(Proc proc, F&& f) {
  switch (proc) {
#define DAFS_WIRE_CASE(name)                \
  case Proc::k##name:                       \
    f.template operator()<Proc::k##name>(); \
    return true;
    DAFS_WIRE_FOR_EACH_PROC(DAFS_WIRE_CASE)
#undef DAFS_WIRE_CASE
  }
  return false;
}

}  // namespace dafs::wire
