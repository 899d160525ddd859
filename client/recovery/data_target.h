// What is read or written: where in which file, as whom, and how. A value.
// Spec: 6.5.27, 6.5.28, 6.5.38, 6.5.39.
#pragma once

#include <cstdint>

#include "client/state/identity.h"
#include "wire/protocol/attributes.h"
#include "wire/protocol/types.h"

namespace dafs::client {

struct DataTarget {
  const Identity* who;  // borrowed, as is the file
  const wire::FileHandle* file;
  wire::StateId state_id;
  uint64_t offset;
  wire::StableHow stability = wire::StableHow::kUnstable;
  uint32_t cache_hint = 0;
  // Of a write: the file's attributes behind it, in the same chain, if it is small and went in one
  // piece; nothing valid in them otherwise. May be null.
  wire::FileAttributes* after = nullptr;
  bool by_lock = false;  // state_id is that of a lock of ours

  DataTarget Behind(uint64_t bytes) const {
    DataTarget target = *this;
    target.offset += bytes;
    return target;
  }
};

}  // namespace dafs::client
