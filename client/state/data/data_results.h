// Results of reads, writes, appends and copies. Values.
// Spec: 6.5.3, 6.5.27, 6.5.28, 6.5.38, 6.5.39.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct ReadResult {
  uint32_t count = 0;  // bytes stored at the start of the lease's payload
  bool eof = false;    // the end of the file was reached
};

struct WriteResult {
  uint32_t count = 0;  // bytes that the server took, from the start; fewer if a later part failed
  wire::StableHow committed = wire::StableHow::kFileSync;  // the weakest of all parts
  wire::Verifier verifier;                                 // of the last part
  bool verifier_changed = false;  // between the parts of this write; Commit handles it
  absl::Status later;             // why `count` is short
};

struct AppendResult {
  uint64_t offset = 0;  // where the server put the data
  wire::StableHow committed = wire::StableHow::kDataSync;
  wire::Verifier verifier;
};

struct CopyResult {
  uint64_t count = 0;  // bytes copied and committed; may be fewer than requested; 0: end of source
};

}  // namespace dafs::client
