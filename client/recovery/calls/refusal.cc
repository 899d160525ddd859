#include "client/recovery/calls/refusal.h"

#include "wire/protocol/broken_lock.h"

namespace dafs::client {
namespace {

using wire::DafsStatus;

constexpr int kMostRegistrations = 8;
constexpr int kMostDamagedRetries = 8;  // requests or responses
constexpr int kMostReclaims = 8;
constexpr int kMostRenewals = 4;

}  // namespace

Remedy RemedyFor(const CallBase& call, bool as_user, bool is_first) {
  switch (call.status) {
    case DafsStatus::kDelay:
    case DafsStatus::kGrace:
      return Remedy::kWait;
    case DafsStatus::kChksum:
      return Remedy::kSendAgain;
    case DafsStatus::kResource:
      return is_first ? Remedy::kNone : Remedy::kSendRest;
    case DafsStatus::kNoCreds:
      return as_user ? Remedy::kRegister : Remedy::kNone;
    case DafsStatus::kStaleStateId:
      if ((call.spec_cond & wire::kSpcondBrokenLock) != 0) return Remedy::kNone;
      [[fallthrough]];
    case DafsStatus::kOldStateId:
    case DafsStatus::kBadStateId:
    case DafsStatus::kExpired: {
      const bool has_open = call.open.has_value() || call.source_open.has_value();
      return has_open && call.proc() != wire::Proc::kClose ? Remedy::kReclaim : Remedy::kNone;
    }
    case DafsStatus::kStaleClientId:
      return Remedy::kNewSession;
    case DafsStatus::kFhExpired:
    case DafsStatus::kStale:
    case DafsStatus::kBadHandle:
      return Remedy::kRenewRoot;
    default:
      return Remedy::kNone;
  }
}

bool Remedies::Allow(Remedy remedy) {
  switch (remedy) {
    case Remedy::kNone:
      return false;
    case Remedy::kWait:  // until the deadline
    case Remedy::kSendRest:
      return true;
    case Remedy::kSendAgain:
      return ++damaged_ <= kMostDamagedRetries;
    case Remedy::kRegister:
      return ++registrations_ <= kMostRegistrations;
    case Remedy::kReclaim:
    case Remedy::kNewSession:
      return ++reclaims_ <= kMostReclaims;
    case Remedy::kRenewRoot:
      return ++renewals_ <= kMostRenewals;
  }
  return false;
}

}  // namespace dafs::client
