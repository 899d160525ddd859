// The file, the ranges and the options of an I/O (client/library/async_io.h, batch_io.h). Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/protocol/types.h"

namespace dafs::client {

inline constexpr size_t kMostIoSegments = 64;  // of AsyncIo::Read or Write; also of its file ranges

// Part of a file. Positions are explicit in every I/O; there is no file pointer.
struct FileRange {
  uint64_t offset = 0;
  uint32_t size = 0;
};

// An open file, as I/O needs it. It must not move while an I/O of it is outstanding.
struct IoFile {
  std::string name;  // for messages
  wire::FileHandle handle;
  wire::StateId state_id;
  uint32_t outstanding = 0;    // reads and writes
  uint32_t referenced_as = 0;  // name in the directory of references; 0: none yet
};

struct IoOptions {
  uint64_t cookie = 0;  // returned with the completion
  // Writes: how stable the data is when the write ends. kUnstable data is stable only after a
  // commit of the file; until then the library writes it again if the server loses it.
  wire::StableHow stability = wire::StableHow::kUnstable;
  uint32_t cache_hint = 0;  // wire::kCacheHint...: for the bytes of this I/O
};

}  // namespace dafs::client
