// The procedures of the protocol: one row each, and the only list of them. Everything that exists
// once for each procedure is made from it: Proc and kProcedures (wire/protocol/procedures.h), the
// traits of the messages (wire/messages/messages.h), their codec (wire/codec/messages.cc) and the
// server's table of handlers (server/procedures/procedures.h).
// Spec: WIRE 9.1; draft 6.1.10 (numbers), 4.3.1 (categories), 4.3.2 (chaining).
//
// The columns are, in this order (ProcInfo has their meaning):
//   name         of Proc, and of the message structs: Access gives kAccess, AccessArgs, AccessRes
//   number       ascending; 1000 .. 1999 are private extensions (R15)
//   NAME         without the prefix DAFS_PROC_
//   section      of the draft
//   category     Category
//   args, res    bytes of the fixed sections
//   filehandles  FileHandles: which arguments name files
//   after        Current: the chain's current filehandle after success
//   state_id     DAFS_CHF_STATEID is allowed
//   after        Current: the chain's current state id after success
//   idempotent   the request may be issued twice
#pragma once

// clang-format off
#define DAFS_WIRE_PROCEDURES(X) \
  X(ClientAuth,         100, "CLIENT_AUTH",         "6.2.2",   Special,             16,  20, None,    Unchanged,  false, Unchanged,  true)  \
  X(ClientConnect,      101, "CLIENT_CONNECT",      "6.2.1",   Special,             56,  56, None,    Unchanged,  false, Unchanged,  true)  \
  X(ClientConnectAuth,  102, "CLIENT_CONNECT_AUTH", "6.2.4",   Special,             72,  72, None,    Unchanged,  false, Unchanged,  true)  \
  X(ConnectBind,        103, "CONNECT_BIND",        "6.2.5",   Special,             40,  32, None,    Unchanged,  false, Unchanged,  true)  \
  X(Disconnect,         104, "DISCONNECT",          "6.2.6",   Special,              0,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(RegisterCred,       105, "REGISTER_CRED",       "6.2.8",   Special,             16,   4, None,    Unchanged,  false, Unchanged,  true)  \
  X(ReleaseCred,        106, "RELEASE_CRED",        "6.2.9",   Special,              4,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(Secinfo,            108, "SECINFO",             "6.2.7",   Special,              0,   4, None,    Unchanged,  false, Unchanged,  true)  \
  X(ServerAuth,         109, "SERVER_AUTH",         "6.2.3",   Special,              4,  12, None,    Unchanged,  false, Unchanged,  true)  \
  X(CheckResponse,      110, "CHECK_RESPONSE",      "6.3.1",   Simple,              16,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(FetchResponse,      111, "FETCH_RESPONSE",      "6.3.2",   Simple,              16,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(DiscardResponses,   112, "DISCARD_RESPONSES",   "6.3.3",   Special,              8,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(Access,             113, "ACCESS",              "6.5.2",   Simple,              72,   8, One,     TheOneUsed, false, Unchanged,  true)  \
  X(CacheHint,          114, "CACHE_HINT",          "6.5.6",   Simple,              88,   0, One,     TheOneUsed, false, Unchanged,  true)  \
  X(Close,              115, "CLOSE",               "6.5.7",   FsStateModifying,    72,   0, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(Commit,             116, "COMMIT",              "6.5.8",   FsStateModifying,    80,   8, One,     TheOneUsed, false, Unchanged,  true)  \
  X(Create,             117, "CREATE",              "6.5.9",   FsStateModifying,    96,  88, One,     FromResult, false, Unchanged,  false) \
  X(Delegpurge,         118, "DELEGPURGE",          "6.5.10",  FsStateModifying,     0,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(Delegreturn,        119, "DELEGRETURN",         "6.5.11",  FsStateModifying,     8,   0, None,    Unchanged,  true,  TheOneUsed, true)  \
  X(GetFsattr,          122, "GET_FSATTR",          "6.5.15",  BulkFetch,           72,   4, One,     TheOneUsed, false, Unchanged,  true)  \
  X(GetRootHandle,      123, "GET_ROOT_HANDLE",     "6.5.12",  Simple,               0,  64, None,    FromResult, false, Unchanged,  true)  \
  X(GetattrInline,      124, "GETATTR_INLINE",      "6.5.13",  BulkFetch,           72,   4, One,     TheOneUsed, false, Unchanged,  true)  \
  X(GetattrDirect,      125, "GETATTR_DIRECT",      "6.5.14",  BulkFetch,           88,   4, One,     TheOneUsed, false, Unchanged,  true)  \
  X(Link,               126, "LINK",                "6.5.17",  FsStateModifying,   136,  24, Two,     TheOneUsed, false, Unchanged,  false) \
  X(Lock,               127, "LOCK",                "6.5.18",  LockStateModifying,  96,  40, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(Lockt,              128, "LOCKT",               "6.5.19",  LockStateModifying,  88,  40, One,     TheOneUsed, false, Unchanged,  true)  \
  X(Locku,              129, "LOCKU",               "6.5.20",  LockStateModifying,  96,   0, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(Lookup,             130, "LOOKUP",              "6.5.21",  Simple,              72,  72, One,     FromResult, false, Unchanged,  true)  \
  X(Lookupp,            131, "LOOKUPP",             "6.5.22",  Simple,              64,  64, One,     FromResult, false, Unchanged,  true)  \
  X(Null,               132, "NULL",                "6.5.1",   Simple,               0,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(Nverify,            133, "NVERIFY",             "6.5.23",  Simple,              72,   0, One,     TheOneUsed, false, Unchanged,  true)  \
  X(Open,               134, "OPEN",                "6.5.24",  FsStateModifying,   144, 152, InClaim, FromResult, true,  FromResult, true)  \
  X(OpenDowngrade,      135, "OPEN_DOWNGRADE",      "6.5.26",  LockStateModifying,  96,   0, One,     TheOneUsed, true,  TheOneUsed, false) \
  X(Openattr,           136, "OPENATTR",            "6.5.25",  Simple,              64,  64, One,     FromResult, false, Unchanged,  true)  \
  X(ReadInline,         137, "READ_INLINE",         "6.5.27",  BulkFetch,           88,   8, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(ReadDirect,         138, "READ_DIRECT",         "6.5.28",  BulkFetch,           96,  12, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(ReaddirInline,      139, "READDIR_INLINE",      "6.5.29",  BulkFetch,           96,  16, One,     TheOneUsed, false, Unchanged,  true)  \
  X(ReaddirDirect,      140, "READDIR_DIRECT",      "6.5.30",  BulkFetch,          104,  16, One,     TheOneUsed, false, Unchanged,  true)  \
  X(ReadlinkInline,     141, "READLINK_INLINE",     "6.5.31",  BulkFetch,           64,   4, One,     TheOneUsed, false, Unchanged,  true)  \
  X(ReadlinkDirect,     142, "READLINK_DIRECT",     "6.5.32",  BulkFetch,           80,   4, One,     TheOneUsed, false, Unchanged,  true)  \
  X(Remove,             143, "REMOVE",              "6.5.33",  FsStateModifying,    72,  24, One,     TheOneUsed, false, Unchanged,  false) \
  X(Rename,             144, "RENAME",              "6.5.34",  FsStateModifying,   136,  48, Two,     TheOneUsed, false, Unchanged,  false) \
  X(SetattrInline,      145, "SETATTR_INLINE",      "6.5.35",  FsStateModifying,    80,   8, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(SetattrDirect,      146, "SETATTR_DIRECT",      "6.5.36",  FsStateModifying,    96,   8, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(Verify,             147, "VERIFY",              "6.5.37",  Simple,              72,   0, One,     TheOneUsed, false, Unchanged,  true)  \
  X(BatchSubmit,        148, "BATCH_SUBMIT",        "6.5.5",   FsStateModifying,    16,   4, None,    Unchanged,  false, Unchanged,  false) \
  X(WriteInline,        149, "WRITE_INLINE",        "6.5.38",  FsStateModifying,    96,  16, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(WriteDirect,        150, "WRITE_DIRECT",        "6.5.39",  FsStateModifying,   104,  16, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(BcGetattr,          151, "BC_GETATTR",          "6.6.3",   BackControl,         72,   4, None,    Unchanged,  false, Unchanged,  true)  \
  X(BcNull,             152, "BC_NULL",             "6.6.1",   BackControl,          0,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(BcRecall,           153, "BC_RECALL",           "6.6.4",   BackControl,         80,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(BcBatchCompletion,  155, "BC_BATCH_COMPLETION", "6.6.2",   BackControl,          4,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(AppendInline,       156, "APPEND_INLINE",       "6.5.3",   FsStateModifying,    88,  24, One,     TheOneUsed, true,  TheOneUsed, false) \
  X(AppendDirect,       157, "APPEND_DIRECT",       "6.5.4",   FsStateModifying,   104,  24, One,     TheOneUsed, true,  TheOneUsed, false) \
  X(GetFencingList,     158, "GET_FENCING_LIST",    "6.4.1",   Special,             64,   4, None,    Unchanged,  false, Unchanged,  true)  \
  X(SetFencingList,     159, "SET_FENCING_LIST",    "6.4.2",   Special,             80,   0, None,    Unchanged,  false, Unchanged,  false) \
  X(HurryUp,            160, "HURRY_UP",            "6.5.16",  FsStateModifying,     8,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(OpenHandle,        1000, "OPEN_HANDLE",         "private", FsStateModifying,    80,  72, One,     FromResult, false, FromResult, true)  \
  X(Rename2,           1001, "RENAME2",             "private", FsStateModifying,   144,  48, Two,     TheOneUsed, false, Unchanged,  false) \
  X(OpenExecute,       1002, "OPEN_EXECUTE",        "private", FsStateModifying,    72,  72, One,     FromResult, false, FromResult, true)  \
  X(MakeNode,          1003, "MAKE_NODE",           "private", FsStateModifying,    96,  88, One,     FromResult, false, Unchanged,  false) \
  X(Allocate,          1005, "ALLOCATE",            "private", FsStateModifying,    96,   0, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(Seek,              1006, "SEEK",                "private", Simple,              88,   8, One,     TheOneUsed, true,  TheOneUsed, true)  \
  X(CopyRange,         1007, "COPY_RANGE",          "private", FsStateModifying,   168,  16, Two,     TheOneUsed, true,  TheOneUsed, true)  \
  X(OpenOwner,         1010, "OPEN_OWNER",          "private", LockStateModifying,  80,   8, One,     TheOneUsed, true,  FromResult, true)  \
  X(OpenDelegated,     1011, "OPEN_DELEGATED",      "private", FsStateModifying,    80, 120, One,     FromResult, false, FromResult, true)  \
  X(Promises,          1020, "PROMISES",            "private", Special,              8,   8, None,    Unchanged,  false, Unchanged,  true)  \
  X(Extensions,        1030, "EXTENSIONS",          "private", Simple,              72,   8, One,     TheOneUsed, false, Unchanged,  true)  \
  X(ServerIdentity,    1031, "SERVER_IDENTITY",     "private", Simple,               0,  32, None,    Unchanged,  false, Unchanged,  true)  \
  X(GetRefs,           1041, "GET_REFS",            "private", Simple,              88,   4, One,     TheOneUsed, true,  Unchanged,  true)  \
  X(ExportCache,       1042, "EXPORT_CACHE",        "private", Simple,              64,  24, One,     TheOneUsed, false, Unchanged,  true)  \
  X(BcChanged,         1100, "BC_CHANGED",          "private", BackControl,          8,   0, None,    Unchanged,  false, Unchanged,  true)  \
  X(BcLockFree,        1101, "BC_LOCK_FREE",        "private", BackControl,         80,   0, None,    Unchanged,  false, Unchanged,  true)
// clang-format on
