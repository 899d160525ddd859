// Messages that move file data, and COMMIT.
// Spec: WIRE 9.4; draft 6.5.3, 6.5.4, 6.5.6, 6.5.8, 6.5.27, 6.5.28, 6.5.38, 6.5.39.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// These structs never contain inline data, which has its own place in the message. The encoder
// takes it as a span, and the decoder returns a span into the message (wire/codec/codec.h).

// DAFS_PROC_READ_INLINE, spec 6.5.27. bytes_read bytes of data follow the result.
struct ReadInlineArgs {
  static constexpr Proc kProc = Proc::kReadInline;

  FileHandle filehandle;
  StateId state_id;
  uint64_t offset = 0;
  uint32_t byte_count = 0;
  uint32_t cache_hint = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("byte_count", m.byte_count);
    c.Field("cache_hint", m.cache_hint);
  }
  friend bool operator==(const ReadInlineArgs&, const ReadInlineArgs&) = default;
};

struct ReadInlineRes {
  static constexpr Proc kProc = Proc::kReadInline;

  bool eof = false;
  uint32_t bytes_read = 0;

  static void Fields(auto& m, auto& c) {
    c.Bool32("eof", m.eof);
    c.Field("bytes_read", m.bytes_read);
  }
  friend bool operator==(const ReadInlineRes&, const ReadInlineRes&) = default;
};

// DAFS_PROC_READ_DIRECT, spec 6.5.28.
struct ReadDirectArgs {
  static constexpr Proc kProc = Proc::kReadDirect;

  FileHandle filehandle;
  StateId state_id;
  uint64_t offset = 0;
  uint32_t byte_count = 0;
  uint32_t cache_hint = 0;
  DirectOpBuffers read_data_buffers;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("byte_count", m.byte_count);
    c.Field("cache_hint", m.cache_hint);
    c.Array("read_data_buffers", m.read_data_buffers, kBuffersMax);
  }
  friend bool operator==(const ReadDirectArgs&, const ReadDirectArgs&) = default;
};

struct ReadDirectRes {
  static constexpr Proc kProc = Proc::kReadDirect;

  bool eof = false;
  uint32_t bytes_read = 0;
  Checksum direct_checksum;

  static void Fields(auto& m, auto& c) {
    c.Bool32("eof", m.eof);
    c.Field("bytes_read", m.bytes_read);
    c.Field("direct_checksum", m.direct_checksum);
  }
  friend bool operator==(const ReadDirectRes&, const ReadDirectRes&) = default;
};

// DAFS_PROC_WRITE_INLINE, spec 6.5.38. byte_count bytes of data follow the arguments.
struct WriteInlineArgs {
  static constexpr Proc kProc = Proc::kWriteInline;

  FileHandle filehandle;
  StateId state_id;
  uint64_t offset = 0;
  uint32_t byte_count = 0;
  StableHow stable_how = StableHow::kUnstable;
  bool write_padded = false;
  uint32_t cache_hint = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("byte_count", m.byte_count);
    c.Field("stable_how", m.stable_how);
    c.Bool32("write_padded", m.write_padded);
    c.Field("cache_hint", m.cache_hint);
  }
  friend bool operator==(const WriteInlineArgs&, const WriteInlineArgs&) = default;
};

struct WriteInlineRes {
  static constexpr Proc kProc = Proc::kWriteInline;

  uint32_t count = 0;
  StableHow committed = StableHow::kUnstable;
  Verifier verifier;

  static void Fields(auto& m, auto& c) {
    c.Field("count", m.count);
    c.Field("committed", m.committed);
    c.Field("verifier", m.verifier);
  }
  friend bool operator==(const WriteInlineRes&, const WriteInlineRes&) = default;
};

// DAFS_PROC_WRITE_DIRECT, spec 6.5.39.
struct WriteDirectArgs {
  static constexpr Proc kProc = Proc::kWriteDirect;

  FileHandle filehandle;
  StateId state_id;
  uint64_t offset = 0;
  uint32_t byte_count = 0;
  StableHow stable_how = StableHow::kUnstable;
  uint32_t cache_hint = 0;
  Checksum direct_checksum;
  DirectOpBuffers write_data_buffers;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("byte_count", m.byte_count);
    c.Field("stable_how", m.stable_how);
    c.Field("cache_hint", m.cache_hint);
    c.Field("direct_checksum", m.direct_checksum);
    c.Array("write_data_buffers", m.write_data_buffers, kBuffersMax);
  }
  friend bool operator==(const WriteDirectArgs&, const WriteDirectArgs&) = default;
};

struct WriteDirectRes {
  static constexpr Proc kProc = Proc::kWriteDirect;

  uint32_t count = 0;
  StableHow committed = StableHow::kUnstable;
  Verifier verifier;

  static void Fields(auto& m, auto& c) {
    c.Field("count", m.count);
    c.Field("committed", m.committed);
    c.Field("verifier", m.verifier);
  }
  friend bool operator==(const WriteDirectRes&, const WriteDirectRes&) = default;
};

// DAFS_PROC_APPEND_INLINE, spec 6.5.3. byte_count bytes of data follow the arguments.
struct AppendInlineArgs {
  static constexpr Proc kProc = Proc::kAppendInline;

  FileHandle filehandle;
  StateId state_id;
  StableHow stable_how = StableHow::kDataSync;
  uint32_t byte_count = 0;
  bool write_padded = false;
  uint32_t cache_hint = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("stable_how", m.stable_how);
    c.Field("byte_count", m.byte_count);
    c.Bool32("write_padded", m.write_padded);
    c.Field("cache_hint", m.cache_hint);
  }
  friend bool operator==(const AppendInlineArgs&, const AppendInlineArgs&) = default;
};

struct AppendInlineRes {
  static constexpr Proc kProc = Proc::kAppendInline;

  uint64_t offset = 0;
  Verifier verifier;
  StableHow committed = StableHow::kDataSync;

  static void Fields(auto& m, auto& c) {
    c.Field("offset", m.offset);
    c.Field("verifier", m.verifier);
    c.Field("committed", m.committed);
  }
  friend bool operator==(const AppendInlineRes&, const AppendInlineRes&) = default;
};

// DAFS_PROC_APPEND_DIRECT, spec 6.5.4.
struct AppendDirectArgs {
  static constexpr Proc kProc = Proc::kAppendDirect;

  FileHandle filehandle;
  StateId state_id;
  StableHow stable_how = StableHow::kDataSync;
  uint32_t byte_count = 0;
  uint32_t cache_hint = 0;
  Checksum direct_checksum;
  DirectOpBuffer write_data_buffer;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("stable_how", m.stable_how);
    c.Field("byte_count", m.byte_count);
    c.Field("cache_hint", m.cache_hint);
    c.Field("direct_checksum", m.direct_checksum);
    c.Field("write_data_buffer", m.write_data_buffer);
  }
  friend bool operator==(const AppendDirectArgs&, const AppendDirectArgs&) = default;
};

struct AppendDirectRes {
  static constexpr Proc kProc = Proc::kAppendDirect;

  uint64_t offset = 0;
  Verifier verifier;
  StableHow committed = StableHow::kDataSync;

  static void Fields(auto& m, auto& c) {
    c.Field("offset", m.offset);
    c.Field("verifier", m.verifier);
    c.Field("committed", m.committed);
  }
  friend bool operator==(const AppendDirectRes&, const AppendDirectRes&) = default;
};

// DAFS_PROC_COMMIT, spec 6.5.8. count 0: to the end of the file.
struct CommitArgs {
  static constexpr Proc kProc = Proc::kCommit;

  FileHandle filehandle;
  uint64_t offset = 0;
  uint32_t count = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("offset", m.offset);
    c.Field("count", m.count);
  }
  friend bool operator==(const CommitArgs&, const CommitArgs&) = default;
};

struct CommitRes {
  static constexpr Proc kProc = Proc::kCommit;

  Verifier writeverf;

  static void Fields(auto& m, auto& c) { c.Field("writeverf", m.writeverf); }
  friend bool operator==(const CommitRes&, const CommitRes&) = default;
};

// DAFS_PROC_CACHE_HINT, spec 6.5.6. count 0: to the end of the file.
struct CacheHintArgs {
  static constexpr Proc kProc = Proc::kCacheHint;

  FileHandle filehandle;
  uint64_t offset = 0;
  uint32_t count = 0;
  AccessPattern access_pattern = AccessPattern::kNormal;
  uint32_t cache_hint = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("offset", m.offset);
    c.Field("count", m.count);
    c.Field("access_pattern", m.access_pattern);
    c.Field("cache_hint", m.cache_hint);
  }
  friend bool operator==(const CacheHintArgs&, const CacheHintArgs&) = default;
};

struct CacheHintRes {
  static constexpr Proc kProc = Proc::kCacheHint;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const CacheHintRes&, const CacheHintRes&) = default;
};

}  // namespace dafs::wire
