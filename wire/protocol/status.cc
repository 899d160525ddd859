#include "wire/protocol/status.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dafs::wire {
namespace {

constexpr char kPayloadUrl[] = "dafs/status";

struct Row {
  DafsStatus number;
  // The caller's action: kUnavailable: repeat; kAborted: repeat from a higher
  // step; kFailedPrecondition: do not repeat; kInternal: this program broke the protocol.
  absl::StatusCode code;
  std::string_view name;
  std::string_view meaning;
};

// Ascending by number: WIRE section 12.
// clang-format off
constexpr Row kRows[] = {
    {DafsStatus::kOk, absl::StatusCode::kOk, "DAFS_STATUS_OK", "success"},
    {DafsStatus::kPerm, absl::StatusCode::kFailedPrecondition, "DAFSERR_PERM", "not owner or not privileged"},
    {DafsStatus::kNoEnt, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOENT", "no such file or directory"},
    {DafsStatus::kIo, absl::StatusCode::kFailedPrecondition, "DAFSERR_IO", "I/O error"},
    {DafsStatus::kNxio, absl::StatusCode::kFailedPrecondition, "DAFSERR_NXIO", "no such device or address"},
    {DafsStatus::kAcces, absl::StatusCode::kFailedPrecondition, "DAFSERR_ACCES", "permission denied; also a fenced-off client"},
    {DafsStatus::kExist, absl::StatusCode::kFailedPrecondition, "DAFSERR_EXIST", "object exists"},
    {DafsStatus::kXdev, absl::StatusCode::kFailedPrecondition, "DAFSERR_XDEV", "two file systems involved"},
    {DafsStatus::kNoDev, absl::StatusCode::kFailedPrecondition, "DAFSERR_NODEV", "no such device"},
    {DafsStatus::kNotDir, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOTDIR", "not a directory"},
    {DafsStatus::kIsDir, absl::StatusCode::kFailedPrecondition, "DAFSERR_ISDIR", "is a directory"},
    {DafsStatus::kInval, absl::StatusCode::kFailedPrecondition, "DAFSERR_INVAL", "invalid or malformed argument"},
    {DafsStatus::kFbig, absl::StatusCode::kFailedPrecondition, "DAFSERR_FBIG", "file would become too large"},
    {DafsStatus::kNoSpc, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOSPC", "no space left"},
    {DafsStatus::kRofs, absl::StatusCode::kFailedPrecondition, "DAFSERR_ROFS", "read-only file system"},
    {DafsStatus::kMlink, absl::StatusCode::kFailedPrecondition, "DAFSERR_MLINK", "too many hard links"},
    {DafsStatus::kNameTooLong, absl::StatusCode::kFailedPrecondition, "DAFSERR_NAMETOOLONG", "name too long"},
    {DafsStatus::kNotEmpty, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOTEMPTY", "directory not empty"},
    {DafsStatus::kDquot, absl::StatusCode::kFailedPrecondition, "DAFSERR_DQUOT", "quota exceeded"},
    {DafsStatus::kStale, absl::StatusCode::kAborted, "DAFSERR_STALE", "object is gone or access to it revoked"},
    {DafsStatus::kBadHandle, absl::StatusCode::kAborted, "DAFSERR_BADHANDLE", "filehandle fails the server's checks"},
    {DafsStatus::kBadCookie, absl::StatusCode::kAborted, "DAFSERR_BAD_COOKIE", "READDIR cookie no longer usable"},
    {DafsStatus::kNotSupp, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOTSUPP", "not supported"},
    {DafsStatus::kTooSmall, absl::StatusCode::kFailedPrecondition, "DAFSERR_TOOSMALL", "buffer or message too small for the result"},
    {DafsStatus::kServerFault, absl::StatusCode::kFailedPrecondition, "DAFSERR_SERVERFAULT", "server error without a code of its own"},
    {DafsStatus::kBadType, absl::StatusCode::kFailedPrecondition, "DAFSERR_BADTYPE", "object type cannot be created"},
    {DafsStatus::kDelay, absl::StatusCode::kUnavailable, "DAFSERR_DELAY", "try again later"},
    {DafsStatus::kSame, absl::StatusCode::kFailedPrecondition, "DAFSERR_SAME", "NVERIFY: attributes are equal"},
    {DafsStatus::kDenied, absl::StatusCode::kFailedPrecondition, "DAFSERR_DENIED", "lock or share conflict"},
    {DafsStatus::kExpired, absl::StatusCode::kAborted, "DAFSERR_EXPIRED", "lease has expired"},
    {DafsStatus::kLocked, absl::StatusCode::kFailedPrecondition, "DAFSERR_LOCKED", "range is locked"},
    {DafsStatus::kGrace, absl::StatusCode::kUnavailable, "DAFSERR_GRACE", "server is in its grace period"},
    {DafsStatus::kFhExpired, absl::StatusCode::kAborted, "DAFSERR_FHEXPIRED", "volatile filehandle has expired"},
    {DafsStatus::kShareDenied, absl::StatusCode::kFailedPrecondition, "DAFSERR_SHARE_DENIED", "share conflict (see R52)"},
    {DafsStatus::kWrongSec, absl::StatusCode::kFailedPrecondition, "DAFSERR_WRONGSEC", "security mechanism not acceptable for this"},
    {DafsStatus::kClidInUse, absl::StatusCode::kFailedPrecondition, "DAFSERR_CLID_INUSE", "client id in use by another client"},
    {DafsStatus::kResource, absl::StatusCode::kUnavailable, "DAFSERR_RESOURCE", "server resources exhausted"},
    {DafsStatus::kMoved, absl::StatusCode::kAborted, "DAFSERR_MOVED", "file system has moved"},
    {DafsStatus::kNoFileHandle, absl::StatusCode::kAborted, "DAFSERR_NOFILEHANDLE", "no current filehandle"},
    {DafsStatus::kMinorVersMismatch, absl::StatusCode::kInternal, "DAFSERR_MINOR_VERS_MISMATCH", "not used"},
    {DafsStatus::kStaleClientId, absl::StatusCode::kAborted, "DAFSERR_STALE_CLIENTID", "client id unknown to the server"},
    {DafsStatus::kStaleStateId, absl::StatusCode::kAborted, "DAFSERR_STALE_STATEID", "state id of an earlier server instance"},
    {DafsStatus::kOldStateId, absl::StatusCode::kAborted, "DAFSERR_OLD_STATEID", "superseded state id"},
    {DafsStatus::kBadStateId, absl::StatusCode::kAborted, "DAFSERR_BAD_STATEID", "state id designates nothing"},
    {DafsStatus::kBadSeqId, absl::StatusCode::kInternal, "DAFSERR_BAD_SEQID", "not used"},
    {DafsStatus::kNotSame, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOT_SAME", "VERIFY: attributes differ"},
    {DafsStatus::kLockRange, absl::StatusCode::kFailedPrecondition, "DAFSERR_LOCK_RANGE", "lock range cannot be split or merged"},
    {DafsStatus::kSymlink, absl::StatusCode::kFailedPrecondition, "DAFSERR_SYMLINK", "symbolic link where none may be"},
    {DafsStatus::kReaddirNoSpc, absl::StatusCode::kFailedPrecondition, "DAFSERR_READDIR_NOSPC", "not one directory entry fits"},
    {DafsStatus::kLeaseMoved, absl::StatusCode::kAborted, "DAFSERR_LEASE_MOVED", "lease belongs to a moved file system"},
    {DafsStatus::kIllegalProt, absl::StatusCode::kInternal, "DAFSERR_ILLEGAL_PROT", "protocol version not supported"},
    {DafsStatus::kIllegalState, absl::StatusCode::kFailedPrecondition, "DAFSERR_ILLEGAL_STATE", "not possible in this state of the channel or session"},
    {DafsStatus::kUnknownSession, absl::StatusCode::kFailedPrecondition, "DAFSERR_UNKNOWN_SESSION", "session id unknown"},
    {DafsStatus::kNoXidMatch, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOXID_MATCH", "no Response Cache entry"},
    {DafsStatus::kNotAuthorized, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOT_AUTHORIZED", "authorization failed"},
    {DafsStatus::kNotFound, absl::StatusCode::kFailedPrecondition, "DAFSERR_NOT_FOUND", "file does not exist (not used)"},
    {DafsStatus::kRdmaReadChannelUnusable, absl::StatusCode::kAborted, "DAFSERR_RDMA_READ_CHANNEL_UNUSABLE", "needs the RDMA-read Channel, which is not bound"},
    {DafsStatus::kChainForm, absl::StatusCode::kInternal, "DAFSERR_CHAIN_FORM", "chaining rules violated"},
    {DafsStatus::kChainBroken, absl::StatusCode::kAborted, "DAFSERR_CHAIN_BROKEN", "an earlier member of the chain failed"},
    {DafsStatus::kGssContinueInit, absl::StatusCode::kFailedPrecondition, "DAFSERR_GSS_CONTINUE_INIT", "GSS exchange goes on"},
    {DafsStatus::kBadSession, absl::StatusCode::kFailedPrecondition, "DAFSERR_BAD_SESSION", "session exists but not usable for this (R50)"},
    {DafsStatus::kNoCreds, absl::StatusCode::kAborted, "DAFSERR_NO_CREDS", "cred_handle not registered (R50)"},
    {DafsStatus::kCrhandConflict, absl::StatusCode::kFailedPrecondition, "DAFSERR_CRHAND_CONFLICT", "not used (R50)"},
    {DafsStatus::kDenyDispConflict, absl::StatusCode::kFailedPrecondition, "DAFSERR_DENYDISP_CONFLICT", "open files and delete disposition conflict"},
    {DafsStatus::kDenyDispNotSupp, absl::StatusCode::kFailedPrecondition, "DAFSERR_DENYDISP_NOTSUPP", "delete disposition not supported"},
    {DafsStatus::kKeyMismatch, absl::StatusCode::kFailedPrecondition, "DAFSERR_KEY_MISMATCH", "share key differs"},
    {DafsStatus::kWriteTooBig, absl::StatusCode::kFailedPrecondition, "DAFSERR_WRITE_TOOBIG", "more data than the server writes or appends at once"},
    {DafsStatus::kBackChannelUnusable, absl::StatusCode::kAborted, "DAFSERR_BACK_CHANNEL_UNUSABLE", "needs the Back-control Channel, which is not bound"},
    {DafsStatus::kChksum, absl::StatusCode::kUnavailable, "DAFSERR_CHKSUM", "checksum mismatch"},
    {DafsStatus::kNoPartialInfo, absl::StatusCode::kFailedPrecondition, "DAFSERR_NO_PARTIAL_INFO", "LOOKUP, OPEN: component_count and filehandle not available"},
    {DafsStatus::kLockBroken, absl::StatusCode::kAborted, "DAFSERR_LOCK_BROKEN", "persistent lock is broken"},
    {DafsStatus::kBatchRequestNotFound, absl::StatusCode::kFailedPrecondition, "DAFSERR_BATCH_REQUEST_NOT_FOUND", "HURRY_UP: no such outstanding request"},
    {DafsStatus::kWhoaCowboy, absl::StatusCode::kUnavailable, "DAFSERR_WHOA_COWBOY", "too many batch requests; wait for completions"},
    {DafsStatus::kPrefetchNotSupported, absl::StatusCode::kFailedPrecondition, "DAFSERR_PREFETCH_NOT_SUPPORTED", "prefetch not supported"},
    {DafsStatus::kNotAuthenticated, absl::StatusCode::kAborted, "DAFSERR_NOT_AUTHENTICATED", "session not authenticated"},
    {DafsStatus::kDeadlock, absl::StatusCode::kFailedPrecondition, "DAFSERR_DEADLOCK", "the process would wait for itself (private)"},
};
// clang-format on

const Row* Find(DafsStatus status) {
  const Row* row = std::lower_bound(std::begin(kRows), std::end(kRows), status,
                                    [](const Row& r, DafsStatus s) { return r.number < s; });
  return row != std::end(kRows) && row->number == status ? row : nullptr;
}

std::optional<DafsStatus> Payload(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const auto text = payload->TryFlat();  // a payload of StatusFromDafs is short enough to be flat
  uint32_t number = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return static_cast<DafsStatus>(number);
}

}  // namespace

std::string_view Name(DafsStatus status) {
  const Row* row = Find(status);
  return row != nullptr ? row->name : "DAFSERR_?";
}

bool IsKnown(DafsStatus status) { return Find(status) != nullptr; }

absl::Status StatusFromDafs(DafsStatus status, std::string_view what) {
  if (status == DafsStatus::kOk) return absl::OkStatus();
  const uint32_t number = static_cast<uint32_t>(status);
  const Row* row = Find(status);
  // Treat an unknown number like SERVERFAULT (WIRE 9.2), but report the number itself.
  const Row* policy = row != nullptr ? row : Find(DafsStatus::kServerFault);
  std::string text(what);
  if (!what.empty()) text += ": ";
  if (row != nullptr) {
    text.append(row->meaning).append(" (").append(row->name).append(")");
  } else {
    absl::StrAppend(&text, "unknown DAFS status ", number);
  }
  absl::Status result(policy->code, text);
  result.SetPayload(kPayloadUrl, absl::Cord(absl::StrCat(static_cast<uint32_t>(policy->number))));
  return result;
}

DafsStatus DafsFromStatus(const absl::Status& status) {
  if (status.ok()) return DafsStatus::kOk;
  return Payload(status).value_or(DafsStatus::kServerFault);
}

absl::Status Prefixed(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  absl::Status prefixed(status.code(), std::string(prefix) + std::string(status.message()));
  status.ForEachPayload(
      [&](auto type, const absl::Cord& payload) { prefixed.SetPayload(type, payload); });
  return prefixed;
}

bool HasDafsStatus(const absl::Status& status) {
  return !status.ok() && Payload(status).has_value();
}

}  // namespace dafs::wire
