// Why this side of an exchange cannot prove who it is: an error of Exchange::Step.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace dafs::auth {

inline constexpr char kExpiredCredentials[] = "dafs/expired-credentials";

// kFailedPrecondition: this side has credentials, which have expired.
inline absl::Status ExpiredError(absl::string_view message) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kExpiredCredentials, absl::Cord());
  return status;
}
inline bool HaveExpired(const absl::Status& status) {
  return status.GetPayload(kExpiredCredentials).has_value();
}

}  // namespace dafs::auth
