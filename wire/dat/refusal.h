// A connection that was refused: the machine answers, and nothing listens there. Nothing arrives
// from a machine that is off or cut off, so a client waits for that one. Values.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace dafs::dat {

inline constexpr char kRefusedPayload[] = "dafs.connection-refused";

// Marks the error of a connection that was refused.
inline absl::Status Refused(absl::Status status) {
  status.SetPayload(kRefusedPayload, absl::Cord());
  return status;
}

inline bool IsRefused(const absl::Status& status) {
  return status.GetPayload(kRefusedPayload).has_value();
}

}  // namespace dafs::dat
