// The enumerations and flag bits of the protocol. Spec: WIRE 4.4, 4.5.
// An enum class is a field that the specification calls `enum`: decoding refuses other values. Bit
// sets and open-ended numbers are uint32_t with constants.
#pragma once

#include <cstdint>

namespace dafs::wire {

// Object types, DAFS_TYPE_x (6.5.9; R33). Decoding accepts any number: CREATE returns BADTYPE.
enum class ObjectType : uint32_t {
  kInvalid = 0,
  kReg = 1,
  kDir = 2,
  kBlk = 3,
  kChr = 4,
  kLnk = 5,
  kSock = 6,
  kFifo = 7,
  kAttrDir = 8,
  kNamedAttr = 9,
};
constexpr bool IsKnown(ObjectType) { return true; }

enum class TimeSetHow : uint32_t { kSetToServerTime = 1, kSetToClientTime = 2 };  // timeset_how
constexpr bool IsKnown(TimeSetHow v) { return uint32_t(v) - 1 <= 1; }

enum class AuthType : uint32_t { kNone = 0, kText = 1, kGss = 2, kDefault = 3 };  // dafs_auth_type
constexpr bool IsKnown(AuthType v) { return uint32_t(v) <= 3; }

enum class GssProcedure : uint32_t { kInit = 1, kContinueInit = 2 };  // dafs_gss_procedure
constexpr bool IsKnown(GssProcedure v) { return uint32_t(v) - 1 <= 1; }

enum class GssService : uint32_t { kAuth = 1, kIntegrity = 2, kPrivacy = 3 };  // dafs_gss_service
constexpr bool IsKnown(GssService v) { return uint32_t(v) - 1 <= 2; }

enum class CredType : uint32_t { kName = 0, kId = 1, kGss = 2, kDefault = 3 };  // 6.2.8
constexpr bool IsKnown(CredType v) { return uint32_t(v) <= 3; }

// 6.2.5. kReferences is private: RDMA reads of the client (wire/messages/references.h).
enum class ChannelUse : uint16_t { kBackControl = 1, kRdmaRead = 2, kReferences = 8 };
constexpr bool IsKnown(ChannelUse v) {
  return v == ChannelUse(1) || v == ChannelUse(2) || v == ChannelUse(8);
}

enum class StableHow : uint32_t { kUnstable = 0, kDataSync = 1, kFileSync = 2 };  // 6.5.38, 6.5.3
constexpr bool IsKnown(StableHow v) { return uint32_t(v) <= 2; }

enum class RwFlag : uint32_t { kRead = 1, kWrite = 2 };  // dafs_rw_flag, 6.5.5
constexpr bool IsKnown(RwFlag v) { return uint32_t(v) - 1 <= 1; }

enum class LockType : uint32_t {  // dafs_lock_type, 6.5.18: READ_LT .. ABORT_LT
  kRead = 1,
  kWrite = 2,
  kReadBlocking = 3,   // READW_LT
  kWriteBlocking = 4,  // WRITEW_LT
  kAbort = 5,
};
constexpr bool IsKnown(LockType v) { return uint32_t(v) - 1 <= 4; }

enum class CreateMode : uint32_t { kUnchecked = 0, kGuarded = 1, kExclusive = 2 };  // createmode
constexpr bool IsKnown(CreateMode v) { return uint32_t(v) <= 2; }

enum class OpenType : uint32_t { kNoCreate = 0, kCreate = 1 };  // opentype
constexpr bool IsKnown(OpenType v) { return uint32_t(v) <= 1; }

enum class OpenClaimType : uint32_t {  // open_claim_type: CLAIM_x
  kNull = 0,
  kPrevious = 1,
  kDelegateCur = 2,
  kDelegatePrev = 3,
  kCreateUnlinked = 4,
};
constexpr bool IsKnown(OpenClaimType v) { return uint32_t(v) <= 4; }

enum class OpenDeleteDisp : uint32_t { kDontCare = 0, kDeny = 1 };  // open_delete_disp
constexpr bool IsKnown(OpenDeleteDisp v) { return uint32_t(v) <= 1; }

enum class LimitBy : uint32_t { kSize = 1, kBlocks = 2 };  // limit_by: DAFS_LIMIT_x
constexpr bool IsKnown(LimitBy v) { return uint32_t(v) - 1 <= 1; }

enum class OpenDelegationType : uint32_t { kNone = 0, kRead = 1, kWrite = 2 };
constexpr bool IsKnown(OpenDelegationType v) { return uint32_t(v) <= 2; }

enum class ShareKeyType : uint32_t { kNone = 0, kBoth = 3 };  // 6.5.24, 4.4.2
constexpr bool IsKnown(ShareKeyType v) { return v == ShareKeyType(0) || v == ShareKeyType(3); }

enum class RemoveMode : uint32_t { kUncheckedRemove = 0, kCheckOpen = 1 };  // removemode, 6.5.33
constexpr bool IsKnown(RemoveMode v) { return uint32_t(v) <= 1; }

enum class FenceObject : uint32_t { kFile = 1, kFilesystem = 2 };  // object_type, 6.4.2
constexpr bool IsKnown(FenceObject v) { return uint32_t(v) - 1 <= 1; }

enum class FenceAccess : uint32_t { kAllow = 1, kDeny = 2 };  // access_type, 6.4.2
constexpr bool IsKnown(FenceAccess v) { return uint32_t(v) - 1 <= 1; }

enum class FenceUpdate : uint32_t { kOverwrite = 1, kAppend = 2, kRemove = 3 };  // update_type
constexpr bool IsKnown(FenceUpdate v) { return uint32_t(v) - 1 <= 2; }

enum class AccessPattern : uint32_t {  // dafs_access_pattern_type, 6.1.8
  kNormal = 0,
  kRandom = 1,
  kSequential = 2,
  kWillNeed = 3,
  kDontNeed = 4,
};
constexpr bool IsKnown(AccessPattern v) { return uint32_t(v) <= 4; }

// How the private procedure ALLOCATE (1005) changes its range: the modes of fallocate(2). Unless a
// mode keeps the size, the file grows to hold the range.
enum class AllocateMode : uint32_t {
  kAllocate = 0,          // allocates blocks for all of it; data stays, holes read as zeros
  kAllocateKeepSize = 1,  // the same, but the size stays
  kPunchHole = 2,         // frees the blocks; the range reads as zeros; the size stays
  kZeroRange = 3,         // the range reads as zeros
  kZeroRangeKeepSize = 4,
  kCollapseRange = 5,  // removes the range from the file
  kInsertRange = 6,    // inserts a hole before offset
};
constexpr bool IsKnown(AllocateMode v) { return uint32_t(v) <= 6; }

// The kind of byte that the private procedure SEEK (1006) looks for.
enum class SeekWhat : uint32_t { kData = 1, kHole = 2 };
constexpr bool IsKnown(SeekWhat v) { return uint32_t(v) - 1 <= 1; }

// Lock options (6.5.18, 4.4.1.3; R11).
inline constexpr uint32_t kLockReclaim = 1;
inline constexpr uint32_t kLockPersist = 2;
inline constexpr uint32_t kLockAutorecovery = 4;
inline constexpr uint32_t kLockRepair = 8;
inline constexpr uint32_t kLockOptionsAll = 0xf;
// Private, in a blocking LOCK to a server that grants kExtensionLockWaits. The client waits for
// BC_LOCK_FREE and repeats the LOCK only every few seconds.
inline constexpr uint32_t kLockAwaits = 0x10000;
// A process waits, and can release its locks only after the wait: DEADLOCK if it would wait for
// itself.
inline constexpr uint32_t kLockOfProcess = 0x20000;
inline constexpr uint32_t kLockOptionsPrivate = kLockAwaits | kLockOfProcess;
// A lock length of all ones extends to the end of the file.
inline constexpr uint64_t kLockToEnd = ~uint64_t{0};

// Share access (1 .. 3) and share deny (0 .. 3), 6.5.24.
inline constexpr uint32_t kShareRead = 1;
inline constexpr uint32_t kShareWrite = 2;
inline constexpr uint32_t kShareBoth = 3;
inline constexpr uint32_t kShareDenyNone = 0;
// Private, in `share_access` of OPEN and OPEN_DELEGATED to a server that grants
// kExtensionOpenXorDelegation: the client wants a delegation in place of the open. WIRE 9.7.
inline constexpr uint32_t kShareWantOpenXorDelegation = 0x200000;

inline constexpr uint32_t kOpenResultMlock = 1;  // result_flags of OPEN

// Access bits of ACCESS, 6.5.2.
inline constexpr uint32_t kAccessRead = 1;
inline constexpr uint32_t kAccessLookup = 2;
inline constexpr uint32_t kAccessModify = 4;
inline constexpr uint32_t kAccessExtend = 8;
inline constexpr uint32_t kAccessDelete = 0x10;
inline constexpr uint32_t kAccessExecute = 0x20;
inline constexpr uint32_t kAccessAll = 0x3f;

// Cache hints, 6.1.8, 6.5.6: 0 = none; 1 (surely not again) .. 7 (very likely again).
inline constexpr uint32_t kCacheHintPrefetch = 0x01;
// Private, in READ_INLINE and READ_DIRECT of a session that agreed on kExtensionReadKeepsAtime: the
// read changes no access time. Other servers ignore it, like any unknown bit (WIRE 4.4).
inline constexpr uint32_t kCacheHintKeepAtime = 0x80;
constexpr uint32_t CacheHintRead(uint32_t hint) { return (hint & 7) << 1; }
constexpr uint32_t CacheHintWrite(uint32_t hint) { return (hint & 7) << 4; }

// ACE types, flags and masks, 6.1.4 (R34).
inline constexpr uint32_t kAceAllowed = 0;
inline constexpr uint32_t kAceDenied = 1;
inline constexpr uint32_t kAceAudit = 2;
inline constexpr uint32_t kAceAlarm = 4;
inline constexpr uint32_t kAceFileInherit = 1;
inline constexpr uint32_t kAceDirectoryInherit = 2;
inline constexpr uint32_t kAceNoPropagateInherit = 4;
inline constexpr uint32_t kAceInheritOnly = 8;
inline constexpr uint32_t kAceSuccessfulAccess = 0x10;
inline constexpr uint32_t kAceFailedAccess = 0x20;
inline constexpr uint32_t kAceIdentifierGroup = 0x40;
inline constexpr uint32_t kAceReadData = 1;    // = LIST_DIRECTORY
inline constexpr uint32_t kAceWriteData = 2;   // = ADD_FILE
inline constexpr uint32_t kAceAppendData = 4;  // = ADD_SUBDIRECTORY
inline constexpr uint32_t kAceReadNamedAttrs = 8;
inline constexpr uint32_t kAceWriteNamedAttrs = 0x10;
inline constexpr uint32_t kAceExecute = 0x20;
inline constexpr uint32_t kAceDeleteChild = 0x40;
inline constexpr uint32_t kAceReadAttributes = 0x80;
inline constexpr uint32_t kAceWriteAttributes = 0x100;
inline constexpr uint32_t kAceDelete = 0x10000;
inline constexpr uint32_t kAceReadAcl = 0x20000;
inline constexpr uint32_t kAceWriteAcl = 0x40000;
inline constexpr uint32_t kAceWriteOwner = 0x80000;
inline constexpr uint32_t kAceSynchronize = 0x100000;

// ACL_SUPPORT attribute, 6.1.6.
inline constexpr uint32_t kAclSupportAllow = 1;
inline constexpr uint32_t kAclSupportDeny = 2;
inline constexpr uint32_t kAclSupportAudit = 4;
inline constexpr uint32_t kAclSupportAlarm = 8;

// FH_EXPIRE_TYPE attribute, 6.1.6.
inline constexpr uint32_t kFhPersistent = 0;
inline constexpr uint32_t kFhNoExpireWithOpen = 1;
inline constexpr uint32_t kFhVolatileAny = 2;
inline constexpr uint32_t kFhVolRename = 8;

// Channel types of the connection's private data, D.8, E.9 (not the numbers of ChannelUse, R42).
inline constexpr uint32_t kChannelOperation = 1;
inline constexpr uint32_t kChannelBackControl = 2;
inline constexpr uint32_t kChannelRdmaRead = 4;
inline constexpr uint32_t kChannelReferences = 8;  // private

// The bits of `mode` that a request may set, 6.1.5 (R69).
inline constexpr uint32_t kModeBits = 07777;
// The size of the first receive that each side of a new connection posts, 3.2.6.3.
inline constexpr uint32_t kFirstReceiveBytes = 4096;
// Default port, R17.
inline constexpr uint16_t kDefaultPort = 20149;

}  // namespace dafs::wire
