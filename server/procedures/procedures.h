// The procedures of the protocol, as functions of a Call. One file per group.
// Spec: WIRE 9.1, 9.4.
#pragma once

#include "runtime/task.h"
#include "server/session/call.h"
#include "server/session/procedure.h"

namespace dafs::server {

// The procedures of this server, for FindProcedure().
extern const ProcedureTable kProcedureTable;

// connect.cc
void ClientConnect(Call& call);
void ClientConnectAuth(Call& call);
void ClientAuth(Call& call);
void ConnectBind(Call& call);
void Disconnect(Call& call);
void Secinfo(Call& call);
void ServerAuth(Call& call);

// credentials.cc
dat::Task<void> RegisterCred(Call& call);
void ReleaseCred(Call& call);

// extensions.cc
void Extensions(Call& call);

// response_cache.cc
void CheckResponse(Call& call);
void FetchResponse(Call& call);
void DiscardResponses(Call& call);

// names.cc
void GetRootHandle(Call& call);
void Lookup(Call& call);
void Lookupp(Call& call);
void Openattr(Call& call);
void Create(Call& call);
void Link(Call& call);
void Remove(Call& call);
void Rename(Call& call);
void Rename2(Call& call);
void MakeNode(Call& call);
void ReadlinkInline(Call& call);

// attributes.cc
void Access(Call& call);
void GetattrInline(Call& call);
void GetFsattr(Call& call);
void SetattrInline(Call& call);
void Verify(Call& call);
void Nverify(Call& call);

// open.cc
dat::Task<void> Open(Call& call);
void OpenHandle(Call& call);
void OpenExecute(Call& call);
void Close(Call& call);
void OpenDowngrade(Call& call);

// locks.cc
void Lock(Call& call);
void Lockt(Call& call);
void Locku(Call& call);
void OpenOwner(Call& call);

// ranges.cc
dat::Task<void> Allocate(Call& call);
dat::Task<void> Seek(Call& call);
dat::Task<void> CopyRange(Call& call);

// data.cc
dat::Task<void> ReadInline(Call& call);
dat::Task<void> WriteInline(Call& call);
dat::Task<void> AppendInline(Call& call);
dat::Task<void> Commit(Call& call);
void CacheHint(Call& call);

// readdir.cc
dat::Task<void> ReaddirInline(Call& call);
dat::Task<void> ReaddirDirect(Call& call);

// direct.cc
dat::Task<void> ReadDirect(Call& call);
dat::Task<void> WriteDirect(Call& call);
dat::Task<void> AppendDirect(Call& call);

// structured.cc: direct variants that move attributes and link contents
dat::Task<void> GetattrDirect(Call& call);
dat::Task<void> ReadlinkDirect(Call& call);
dat::Task<void> SetattrDirect(Call& call);

// batch.cc
dat::Task<void> BatchSubmit(Call& call);
void HurryUp(Call& call);

}  // namespace dafs::server
