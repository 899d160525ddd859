// The target of a read or write: file, offset, user, and how the data is written. A value.
// Spec: 6.5.27, 6.5.28, 6.5.38, 6.5.39.
#pragma once

#include <cstdint>

#include "client/state/node.h"
#include "client/state/records/identity.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct DataTarget {
  const Identity* user;  // `user` and `file` must outlive this
  const wire::FileHandle* file;
  wire::StateId state_id;
  uint64_t offset;
  wire::StableHow stability = wire::StableHow::kUnstable;
  uint32_t cache_hint = 0;
  // For a small write in one piece: receives the file's attributes after the write, fetched in the
  // same chain. Otherwise nothing valid is stored. May be null.
  Attributes* after = nullptr;
  bool by_lock = false;  // `state_id` belongs to a lock that this client holds

  DataTarget Behind(uint64_t bytes) const {
    DataTarget target = *this;
    target.offset += bytes;
    return target;
  }
};

}  // namespace dafs::client
