// The procedures of the protocol: one constexpr table for the client, the server and the trace log.
// Spec: WIRE 9.1; draft 6.1.10 (numbers), 4.3.1 (categories), 4.3.2 (chaining).
// ProcTraits in wire/messages/messages.h adds the argument and result types of each row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dafs::wire {

// DAFS_PROC_x. 1000 .. 1999 are private extensions (R15).
enum class Proc : uint32_t {
  kClientAuth = 100,
  kClientConnect = 101,
  kClientConnectAuth = 102,
  kConnectBind = 103,
  kDisconnect = 104,
  kRegisterCred = 105,
  kReleaseCred = 106,
  kSecinfo = 108,
  kServerAuth = 109,
  kCheckResponse = 110,
  kFetchResponse = 111,
  kDiscardResponses = 112,
  kAccess = 113,
  kCacheHint = 114,
  kClose = 115,
  kCommit = 116,
  kCreate = 117,
  kDelegpurge = 118,
  kDelegreturn = 119,
  kGetFsattr = 122,
  kGetRootHandle = 123,
  kGetattrInline = 124,
  kGetattrDirect = 125,
  kLink = 126,
  kLock = 127,
  kLockt = 128,
  kLocku = 129,
  kLookup = 130,
  kLookupp = 131,
  kNull = 132,
  kNverify = 133,
  kOpen = 134,
  kOpenDowngrade = 135,
  kOpenattr = 136,
  kReadInline = 137,
  kReadDirect = 138,
  kReaddirInline = 139,
  kReaddirDirect = 140,
  kReadlinkInline = 141,
  kReadlinkDirect = 142,
  kRemove = 143,
  kRename = 144,
  kSetattrInline = 145,
  kSetattrDirect = 146,
  kVerify = 147,
  kBatchSubmit = 148,
  kWriteInline = 149,
  kWriteDirect = 150,
  kBcGetattr = 151,
  kBcNull = 152,
  kBcRecall = 153,
  kBcBatchCompletion = 155,
  kAppendInline = 156,
  kAppendDirect = 157,
  kGetFencingList = 158,
  kSetFencingList = 159,
  kHurryUp = 160,
  kOpenHandle = 1000,
  kRename2 = 1001,
  kOpenExecute = 1002,
  kMakeNode = 1003,
  kAllocate = 1005,
  kSeek = 1006,
  kCopyRange = 1007,
  kOpenOwner = 1010,
  kExtensions = 1030,
};

// The role of a procedure in a chain. Spec: 4.3.1.
enum class Category : uint8_t {
  kSpecial,  // may not be in a chain
  kSimple,
  kFsStateModifying,
  kLockStateModifying,
  kBulkFetch,
  kBackControl,
};

// Whether the Response Cache keeps the response (5.2.1).
constexpr bool ModifiesState(Category category) {
  return category == Category::kFsStateModifying || category == Category::kLockStateModifying;
}

// Client to server, or server to client (on the Back-control Channel).
enum class Direction : uint8_t { kToServer, kToClient };

// The chain's current filehandle or state id after success. Spec: WIRE 8.3, 9.1.
enum class Current : uint8_t {
  kUnchanged,
  kTheOneUsed,  // the argument, or the current one that CHF_FH or CHF_STATEID selected instead
  kFromResult,
};

struct ProcInfo {
  Proc number;
  std::string_view name;     // without the prefix DAFS_PROC_
  std::string_view section;  // of the draft
  Category category;
  Direction direction;
  uint16_t args_size;  // of the fixed section, bytes
  uint16_t res_size;
  bool chf_fh;  // DAFS_CHF_FH is allowed
  Current filehandle_after;
  bool chf_state_id;  // DAFS_CHF_STATEID is allowed (OPEN: only CLAIM_DELEGATE_CUR)
  Current state_id_after;

  // Whether chain flags are allowed. Special and back-control procedures accept none.
  constexpr bool chainable() const {
    return category != Category::kSpecial && category != Category::kBackControl;
  }
};

// clang-format off
inline constexpr auto kProcedures = std::to_array<ProcInfo>({
    {Proc::kClientAuth, "CLIENT_AUTH", "6.2.2", Category::kSpecial, Direction::kToServer, 16, 20, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kClientConnect, "CLIENT_CONNECT", "6.2.1", Category::kSpecial, Direction::kToServer, 56, 56, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kClientConnectAuth, "CLIENT_CONNECT_AUTH", "6.2.4", Category::kSpecial, Direction::kToServer, 72, 72, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kConnectBind, "CONNECT_BIND", "6.2.5", Category::kSpecial, Direction::kToServer, 40, 32, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kDisconnect, "DISCONNECT", "6.2.6", Category::kSpecial, Direction::kToServer, 0, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kRegisterCred, "REGISTER_CRED", "6.2.8", Category::kSpecial, Direction::kToServer, 16, 4, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kReleaseCred, "RELEASE_CRED", "6.2.9", Category::kSpecial, Direction::kToServer, 4, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kSecinfo, "SECINFO", "6.2.7", Category::kSpecial, Direction::kToServer, 0, 4, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kServerAuth, "SERVER_AUTH", "6.2.3", Category::kSpecial, Direction::kToServer, 4, 12, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kCheckResponse, "CHECK_RESPONSE", "6.3.1", Category::kSimple, Direction::kToServer, 16, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kFetchResponse, "FETCH_RESPONSE", "6.3.2", Category::kSimple, Direction::kToServer, 16, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kDiscardResponses, "DISCARD_RESPONSES", "6.3.3", Category::kSpecial, Direction::kToServer, 8, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kAccess, "ACCESS", "6.5.2", Category::kSimple, Direction::kToServer, 72, 8, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kCacheHint, "CACHE_HINT", "6.5.6", Category::kSimple, Direction::kToServer, 88, 0, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kClose, "CLOSE", "6.5.7", Category::kFsStateModifying, Direction::kToServer, 72, 0, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kCommit, "COMMIT", "6.5.8", Category::kFsStateModifying, Direction::kToServer, 80, 8, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kCreate, "CREATE", "6.5.9", Category::kFsStateModifying, Direction::kToServer, 96, 88, true, Current::kFromResult, false, Current::kUnchanged},
    {Proc::kDelegpurge, "DELEGPURGE", "6.5.10", Category::kFsStateModifying, Direction::kToServer, 0, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kDelegreturn, "DELEGRETURN", "6.5.11", Category::kFsStateModifying, Direction::kToServer, 8, 0, false, Current::kUnchanged, true, Current::kTheOneUsed},
    {Proc::kGetFsattr, "GET_FSATTR", "6.5.15", Category::kBulkFetch, Direction::kToServer, 72, 4, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kGetRootHandle, "GET_ROOT_HANDLE", "6.5.12", Category::kSimple, Direction::kToServer, 0, 64, false, Current::kFromResult, false, Current::kUnchanged},
    {Proc::kGetattrInline, "GETATTR_INLINE", "6.5.13", Category::kBulkFetch, Direction::kToServer, 72, 4, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kGetattrDirect, "GETATTR_DIRECT", "6.5.14", Category::kBulkFetch, Direction::kToServer, 88, 4, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kLink, "LINK", "6.5.17", Category::kFsStateModifying, Direction::kToServer, 136, 24, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kLock, "LOCK", "6.5.18", Category::kLockStateModifying, Direction::kToServer, 96, 40, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kLockt, "LOCKT", "6.5.19", Category::kLockStateModifying, Direction::kToServer, 88, 40, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kLocku, "LOCKU", "6.5.20", Category::kLockStateModifying, Direction::kToServer, 96, 0, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kLookup, "LOOKUP", "6.5.21", Category::kSimple, Direction::kToServer, 72, 72, true, Current::kFromResult, false, Current::kUnchanged},
    {Proc::kLookupp, "LOOKUPP", "6.5.22", Category::kSimple, Direction::kToServer, 64, 64, true, Current::kFromResult, false, Current::kUnchanged},
    {Proc::kNull, "NULL", "6.5.1", Category::kSimple, Direction::kToServer, 0, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kNverify, "NVERIFY", "6.5.23", Category::kSimple, Direction::kToServer, 72, 0, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kOpen, "OPEN", "6.5.24", Category::kFsStateModifying, Direction::kToServer, 144, 152, true, Current::kFromResult, true, Current::kFromResult},
    {Proc::kOpenDowngrade, "OPEN_DOWNGRADE", "6.5.26", Category::kLockStateModifying, Direction::kToServer, 96, 0, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kOpenattr, "OPENATTR", "6.5.25", Category::kSimple, Direction::kToServer, 64, 64, true, Current::kFromResult, false, Current::kUnchanged},
    {Proc::kReadInline, "READ_INLINE", "6.5.27", Category::kBulkFetch, Direction::kToServer, 88, 8, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kReadDirect, "READ_DIRECT", "6.5.28", Category::kBulkFetch, Direction::kToServer, 96, 12, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kReaddirInline, "READDIR_INLINE", "6.5.29", Category::kBulkFetch, Direction::kToServer, 96, 16, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kReaddirDirect, "READDIR_DIRECT", "6.5.30", Category::kBulkFetch, Direction::kToServer, 104, 16, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kReadlinkInline, "READLINK_INLINE", "6.5.31", Category::kBulkFetch, Direction::kToServer, 64, 4, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kReadlinkDirect, "READLINK_DIRECT", "6.5.32", Category::kBulkFetch, Direction::kToServer, 80, 4, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kRemove, "REMOVE", "6.5.33", Category::kFsStateModifying, Direction::kToServer, 72, 24, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kRename, "RENAME", "6.5.34", Category::kFsStateModifying, Direction::kToServer, 136, 48, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kSetattrInline, "SETATTR_INLINE", "6.5.35", Category::kFsStateModifying, Direction::kToServer, 80, 8, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kSetattrDirect, "SETATTR_DIRECT", "6.5.36", Category::kFsStateModifying, Direction::kToServer, 96, 8, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kVerify, "VERIFY", "6.5.37", Category::kSimple, Direction::kToServer, 72, 0, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kBatchSubmit, "BATCH_SUBMIT", "6.5.5", Category::kFsStateModifying, Direction::kToServer, 16, 4, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kWriteInline, "WRITE_INLINE", "6.5.38", Category::kFsStateModifying, Direction::kToServer, 96, 16, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kWriteDirect, "WRITE_DIRECT", "6.5.39", Category::kFsStateModifying, Direction::kToServer, 104, 16, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kBcGetattr, "BC_GETATTR", "6.6.3", Category::kBackControl, Direction::kToClient, 72, 4, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kBcNull, "BC_NULL", "6.6.1", Category::kBackControl, Direction::kToClient, 0, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kBcRecall, "BC_RECALL", "6.6.4", Category::kBackControl, Direction::kToClient, 80, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kBcBatchCompletion, "BC_BATCH_COMPLETION", "6.6.2", Category::kBackControl, Direction::kToClient, 4, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kAppendInline, "APPEND_INLINE", "6.5.3", Category::kFsStateModifying, Direction::kToServer, 88, 24, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kAppendDirect, "APPEND_DIRECT", "6.5.4", Category::kFsStateModifying, Direction::kToServer, 104, 24, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kGetFencingList, "GET_FENCING_LIST", "6.4.1", Category::kSpecial, Direction::kToServer, 64, 4, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kSetFencingList, "SET_FENCING_LIST", "6.4.2", Category::kSpecial, Direction::kToServer, 80, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kHurryUp, "HURRY_UP", "6.5.16", Category::kFsStateModifying, Direction::kToServer, 8, 0, false, Current::kUnchanged, false, Current::kUnchanged},
    {Proc::kOpenHandle, "OPEN_HANDLE", "private", Category::kFsStateModifying, Direction::kToServer, 80, 72, true, Current::kFromResult, false, Current::kFromResult},
    {Proc::kRename2, "RENAME2", "private", Category::kFsStateModifying, Direction::kToServer, 144, 48, true, Current::kTheOneUsed, false, Current::kUnchanged},
    {Proc::kOpenExecute, "OPEN_EXECUTE", "private", Category::kFsStateModifying, Direction::kToServer, 72, 72, true, Current::kFromResult, false, Current::kFromResult},
    {Proc::kMakeNode, "MAKE_NODE", "private", Category::kFsStateModifying, Direction::kToServer, 96, 88, true, Current::kFromResult, false, Current::kUnchanged},
    {Proc::kAllocate, "ALLOCATE", "private", Category::kFsStateModifying, Direction::kToServer, 96, 0, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kSeek, "SEEK", "private", Category::kSimple, Direction::kToServer, 88, 8, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kCopyRange, "COPY_RANGE", "private", Category::kFsStateModifying, Direction::kToServer, 168, 16, true, Current::kTheOneUsed, true, Current::kTheOneUsed},
    {Proc::kOpenOwner, "OPEN_OWNER", "private", Category::kLockStateModifying, Direction::kToServer, 80, 8, true, Current::kTheOneUsed, true, Current::kFromResult},
    {Proc::kExtensions, "EXTENSIONS", "private", Category::kSimple, Direction::kToServer, 72, 8, true, Current::kTheOneUsed, false, Current::kUnchanged},
});
// clang-format on

namespace internal {

inline constexpr uint32_t kFirstNumber = static_cast<uint32_t>(kProcedures.front().number);
inline constexpr uint32_t kLastNumber = static_cast<uint32_t>(kProcedures.back().number);

// One byte for each number from the first to the last: its row plus one, or 0.
inline constexpr auto kRowOfNumber = [] {
  static_assert(kProcedures.size() < 255);
  std::array<uint8_t, kLastNumber - kFirstNumber + 1> rows{};
  for (size_t i = 0; i < kProcedures.size(); ++i) {
    rows[static_cast<uint32_t>(kProcedures[i].number) - kFirstNumber] = static_cast<uint8_t>(i + 1);
  }
  return rows;
}();

}  // namespace internal

// Returns the row of `proc`, without a search; null for an unassigned number.
constexpr const ProcInfo* FindProc(Proc proc) {
  const uint32_t index = static_cast<uint32_t>(proc) - internal::kFirstNumber;
  if (index >= internal::kRowOfNumber.size() || internal::kRowOfNumber[index] == 0) return nullptr;
  return &kProcedures[internal::kRowOfNumber[index] - 1u];
}

// Returns the row of a procedure that exists: a constant expression for constant arguments.
constexpr const ProcInfo& InfoOf(Proc proc) {
  const ProcInfo* row = FindProc(proc);
  return row != nullptr ? *row : kProcedures[0];
}

// The index of a row in kProcedures.
constexpr size_t RowOf(const ProcInfo& info) {
  return static_cast<size_t>(&info - kProcedures.data());
}

// For example "LOOKUP"; "?" for an unassigned number.
constexpr std::string_view Name(Proc proc) {
  const ProcInfo* row = FindProc(proc);
  return row != nullptr ? row->name : std::string_view("?");
}

}  // namespace dafs::wire
