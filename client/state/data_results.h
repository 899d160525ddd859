// What came of reading, writing, appending and copying. Values.
// Spec: 6.5.3, 6.5.27, 6.5.28, 6.5.38, 6.5.39.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct ReadResult {
  uint32_t count = 0;  // bytes placed, from the start of the lease's payload on
  bool eof = false;    // the end of the file was reached
};

struct WriteResult {
  uint32_t count = 0;  // bytes taken by the server, from the first on; short: a later part failed
  wire::StableHow committed = wire::StableHow::kFileSync;  // the least of all parts
  wire::Verifier verifier;                                 // of the last part
  bool verifier_changed = false;  // between the parts of this write; Commit knows
  absl::Status later;             // why it is short
};

struct AppendResult {
  uint64_t offset = 0;  // where the data landed
  wire::StableHow committed = wire::StableHow::kDataSync;
  wire::Verifier verifier;
};

struct CopyResult {
  uint64_t count = 0;  // bytes copied, and safe; fewer than asked for is no error, 0: source ended
};

}  // namespace dafs::client
