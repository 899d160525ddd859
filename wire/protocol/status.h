// The status codes of the protocol, and their absl::Status in this program.
// Spec: WIRE section 12; draft section 7. Usable from any thread; nothing blocks.
//
// The code of an absl::Status made here states what the caller must do (kUnavailable: repeat the
// call; kAborted: repeat from a higher step; kFailedPrecondition: do not repeat; kDataLoss: the
// peer's bytes cannot be decoded). Its payload is the DAFS code, which DafsFromStatus returns.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace dafs::wire {

// dafs_status_type: DAFS_STATUS_OK, DAFSERR_x. A peer may send other numbers, which are treated
// like kServerFault (WIRE 9.2).
enum class DafsStatus : uint32_t {
  kOk = 0,
  kPerm = 1,
  kNoEnt = 2,
  kIo = 5,
  kNxio = 6,
  kAcces = 13,
  kExist = 17,
  kXdev = 18,
  kNoDev = 19,
  kNotDir = 20,
  kIsDir = 21,
  kInval = 22,
  kFbig = 27,
  kNoSpc = 28,
  kRofs = 30,
  kMlink = 31,
  kNameTooLong = 63,
  kNotEmpty = 66,
  kDquot = 69,
  kStale = 70,
  kBadHandle = 10001,
  kBadCookie = 10003,
  kNotSupp = 10004,
  kTooSmall = 10005,
  kServerFault = 10006,
  kBadType = 10007,
  kDelay = 10008,
  kSame = 10009,
  kDenied = 10010,
  kExpired = 10011,
  kLocked = 10012,
  kGrace = 10013,
  kFhExpired = 10014,
  kShareDenied = 10015,
  kWrongSec = 10016,
  kClidInUse = 10017,
  kResource = 10018,
  kMoved = 10019,
  kNoFileHandle = 10020,
  kMinorVersMismatch = 10021,
  kStaleClientId = 10022,
  kStaleStateId = 10023,
  kOldStateId = 10024,
  kBadStateId = 10025,
  kBadSeqId = 10026,
  kNotSame = 10027,
  kLockRange = 10028,
  kSymlink = 10029,
  kReaddirNoSpc = 10030,
  kLeaseMoved = 10031,
  kIllegalProt = 15002,
  kIllegalState = 15003,
  kUnknownSession = 15004,
  kNoXidMatch = 15005,
  kNotAuthorized = 15006,
  kNotFound = 15007,
  kRdmaReadChannelUnusable = 15008,
  kChainForm = 15009,
  kChainBroken = 15010,
  kGssContinueInit = 15011,
  kBadSession = 15012,
  kNoCreds = 15013,
  kCrhandConflict = 15014,
  kDenyDispConflict = 15015,
  kDenyDispNotSupp = 15016,
  kKeyMismatch = 15017,
  kWriteTooBig = 15018,
  kBackChannelUnusable = 15019,
  kChksum = 15020,
  kNoPartialInfo = 15021,
  kLockBroken = 15022,
  kBatchRequestNotFound = 15023,
  kWhoaCowboy = 15024,
  kPrefetchNotSupported = 15025,
  kNotAuthenticated = 15026,
  // Private (WIRE 9.4 LOCK).
  kDeadlock = 16000,
};

// The specification's name, "DAFSERR_NOENT"; "DAFSERR_?" for a number it does not define.
std::string_view Name(DafsStatus status);

// Whether the specification defines this number.
bool IsKnown(DafsStatus status);

// The Status for a response of `status` to `what` ("lookup of 3 names"): "what: meaning (NAME)". OK
// for kOk. Otherwise the code states what the caller must do, and DafsFromStatus returns `status`.
absl::Status StatusFromDafs(DafsStatus status, std::string_view what = "");

// Returns the DAFS code in `status`; kOk for OK. Without a payload returns kServerFault, which a
// server sends when it failed for a reason of its own.
DafsStatus DafsFromStatus(const absl::Status& status);

// Returns `status` with `prefix` before its message, and with the same code and DAFS code.
absl::Status Prefixed(const absl::Status& status, std::string_view prefix);

// Whether `status` has a DAFS code, which means that the server sent a response.
bool HasDafsStatus(const absl::Status& status);

}  // namespace dafs::wire
