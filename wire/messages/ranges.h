// Private procedures on ranges of a file (R15), for fallocate(2), lseek(2) to holes and
// copy_file_range(2), which the draft lacks. A server without them responds NOTSUPP.
// Values. Each struct lists its fields once.
#pragma once

#include <cstdint>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_ALLOCATE (1005), a private procedure. Requires the rights of WRITE. Errors: NOTSUPP
// also if the file system does not support the mode; FBIG, NOSPC, DQUOT; INVAL: length 0, or a
// range that the mode does not allow.
//
//   req  0 filehandle 64, 64 opaque64 state_id, 72 u64 offset, 80 u64 length, 88 u32 mode; 96 bytes
//   res  none
struct AllocateArgs {
  static constexpr Proc kProc = Proc::kAllocate;

  FileHandle filehandle;
  StateId state_id;
  uint64_t offset = 0;
  uint64_t length = 0;
  AllocateMode mode = AllocateMode::kAllocate;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("length", m.length);
    c.Field("mode", m.mode);
    c.Pad32("pad");
  }
  friend bool operator==(const AllocateArgs&, const AllocateArgs&) = default;
};

struct AllocateRes {
  static constexpr Proc kProc = Proc::kAllocate;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const AllocateRes&, const AllocateRes&) = default;
};

// DAFS_PROC_SEEK (1006), a private procedure: returns the first byte at `offset` or later that is
// data, or is in a hole (the end of the file counts as a hole). NXIO: there is none. Any open of
// the file gives the right; without an open, the rights of READ are required.
//
//   req  0 filehandle 64, 64 opaque64 state_id, 72 u64 offset, 80 u32 what; 88 bytes
//   res  0 u64 offset; 8 bytes
struct SeekArgs {
  static constexpr Proc kProc = Proc::kSeek;

  FileHandle filehandle;
  StateId state_id;
  uint64_t offset = 0;
  SeekWhat what = SeekWhat::kData;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("what", m.what);
    c.Pad32("pad");
  }
  friend bool operator==(const SeekArgs&, const SeekArgs&) = default;
};

struct SeekRes {
  static constexpr Proc kProc = Proc::kSeek;

  uint64_t offset = 0;

  static void Fields(auto& m, auto& c) { c.Field("offset", m.offset); }
  friend bool operator==(const SeekRes&, const SeekRes&) = default;
};

// DAFS_PROC_COPY_RANGE (1007), a private procedure: the server copies up to `length` bytes from one
// file to another, or within one. Requires the rights of READ for the source and of WRITE for the
// target (`filehandle`, `state_id`). `count` may be less than `length`; 0 means that the source
// ends at its offset. The copy is unstable, with the verifier of WRITE. XDEV: the client must copy
// by reading and writing. INVAL: overlapping ranges of one file.
//
//   req  0 filehandle 64, 64 filehandle 64 source_filehandle, 128 opaque64 state_id, 136 opaque64
//        source_state_id, 144 u64 offset, 152 u64 source_offset, 160 u64 length; 168 bytes
//   res  0 u64 count, 8 opaque64 verifier; 16 bytes
struct CopyRangeArgs {
  static constexpr Proc kProc = Proc::kCopyRange;

  FileHandle filehandle;
  FileHandle source_filehandle;
  StateId state_id;
  StateId source_state_id;
  uint64_t offset = 0;
  uint64_t source_offset = 0;
  uint64_t length = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("source_filehandle", m.source_filehandle);
    c.Field("state_id", m.state_id);
    c.Field("source_state_id", m.source_state_id);
    c.Field("offset", m.offset);
    c.Field("source_offset", m.source_offset);
    c.Field("length", m.length);
  }
  friend bool operator==(const CopyRangeArgs&, const CopyRangeArgs&) = default;
};

struct CopyRangeRes {
  static constexpr Proc kProc = Proc::kCopyRange;

  uint64_t count = 0;
  Verifier verifier;

  static void Fields(auto& m, auto& c) {
    c.Field("count", m.count);
    c.Field("verifier", m.verifier);
  }
  friend bool operator==(const CopyRangeRes&, const CopyRangeRes&) = default;
};

}  // namespace dafs::wire
