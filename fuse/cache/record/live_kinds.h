// The kinds of items in the live record of a mount (live_record.h). A kind that changes its meaning
// needs a new HandoverRecord::kVersion.
#pragma once

#include <cstdint>

namespace dafs::fuse {

enum class LiveKind : uint8_t {
  kNode = 1,  // live_nodes.h
  // fuse/restart/live_client.h
  kOpen = 2,
  kLocks = 3,
  kCredential = 4,
  kDelegation = 5,
  kKeptFile = 10,
  kKept = 11,
  kSession = 12,
  // fuse/files/live_files.h
  kFile = 6,
  kDirectory = 7,
  kLockOwner = 8,
  kPiece = 9,
};

}  // namespace dafs::fuse
