// What is asked for at an OPEN, and what comes of it. Values.
// Spec: 6.5.24.
#pragma once

#include <cstdint>
#include <string>

#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct OpenRequest {
  wire::FileHandle directory;
  std::string name;
  uint32_t share_access = wire::kShareRead;  // wire::kShareRead | kShareWrite
  uint32_t share_deny = wire::kShareDenyNone;
  std::string owner;  // opaque, at most 1024 bytes: two opens with one owner are one open
  bool create = false;
  // With create. kUnchecked takes an existing file, kGuarded fails with EXIST; kExclusive too, but
  // takes the file again that the same `verifier` made.
  wire::CreateMode create_mode = wire::CreateMode::kUnchecked;
  wire::FileAttributes attributes;  // of a file that is made: mode, owner, times
  wire::Verifier verifier;          // kExclusive: unique for this open
  bool truncate = false;            // O_TRUNC: an existing file is cut to size 0
};

// An open file at the server. A value; closing it is the owner's duty (Files::Close), unless
// state_id is zero.
struct OpenFile {
  wire::FileHandle handle;
  wire::StateId state_id;  // zero: the server has no open for it, see OpenByHandle
  wire::FileAttributes attributes;
  // Whether this OPEN made the file. With kUnchecked judged by the directory's change_info, so that
  // true may also be said of a file that was there.
  bool created = false;
};

}  // namespace dafs::client
