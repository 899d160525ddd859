// The request and the result of an OPEN. Values.
// Spec: 6.5.24.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/state/node.h"
#include "client/state/promises.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct OpenRequest {
  wire::FileHandle directory;
  std::string name;
  uint32_t share_access = wire::kShareRead;  // wire::kShareRead | kShareWrite
  uint32_t share_deny = wire::kShareDenyNone;
  bool deny_delete = false;           // no other client removes the file while it is open
  std::optional<uint64_t> share_key;  // only opens with the same key, or with none, may join it
  std::string owner;  // opaque, at most 1024 bytes; opens of a file by one owner are one open
  bool create = false;
  // With `create`. kUnchecked accepts an existing file. kGuarded fails with EXIST; so does
  // kExclusive, unless an OPEN with the same `verifier` created the file.
  wire::CreateMode create_mode = wire::CreateMode::kUnchecked;
  wire::FileAttributes attributes;  // of a new file: mode, owner, times
  wire::Verifier verifier;          // kExclusive: unique for this open
  bool truncate = false;            // O_TRUNC: an existing file is truncated to 0

  // Whether the open keeps others away. The server then has to know it.
  bool Reserves() const {
    return share_deny != wire::kShareDenyNone || deny_delete || share_key.has_value();
  }
};

// An open file at the server. A value; the owner must close it (OpenOperations::Close), unless
// state_id is zero.
struct OpenFile {
  wire::FileHandle handle;
  wire::StateId state_id;  // zero: the server has no open, see OpenByHandle
  Attributes attributes;
  Promise names = {};  // of the directory, if the OPEN was by name
  // Whether this OPEN created the file. With kUnchecked this is derived from the directory's
  // change_info, so it may be true for a file that existed.
  bool created = false;
  // The number of the delegation (client/state/delegations.h) under which it is open; 0: none.
  uint64_t delegation = 0;
  // Opened without a request: of `attributes` at most the owner is known. The file has not changed
  // since the delegation was granted, except by this client.
  bool is_local = false;
};

}  // namespace dafs::client
