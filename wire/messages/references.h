// The private procedures of Optimistic DAFS: a client reads blocks of the server's exported cache
// by RDMA reads of its own, with references that it got before.
// Spec: FAST03 companion (Optimistic DAFS); docs/wire.md, "Reads by reference".
// Values.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_GET_REFS (1041): the client requests references to the blocks of a file that the server
// has in its cache, from the one that begins at `offset` on, at most `count`. Requires the rights
// of READ. The server copies blocks that only its kernel caches, as far as it has the time and the
// room. ILLEGAL_STATE: EXPORT_CACHE has not announced the cache of the file's export on a reference
// channel of this session. INVAL: `offset` is not a multiple of kExportedBlock, or `count` is 0 or
// more than kReferencesMax.
//
//   req  0 filehandle 64, 64 opaque64 state_id, 72 u64 offset, 80 u32 count, 84 u32 pad; 88 bytes
//   res  0 off -> array of reference; 4 bytes
//   reference  0 u64 block, 8 u64 position, 16 u64 version; 24 bytes
struct BlockReference {
  static constexpr size_t kWireSize = 24;
  static constexpr size_t kWireAlign = 8;

  uint64_t block = 0;     // offset in the file / kExportedBlock
  uint64_t position = 0;  // of the frame (wire/codec/exported_block.h), from the cache's address on
  uint64_t version = 0;   // which the frame has as long as the reference is valid

  static void Fields(auto& m, auto& c) {
    c.Field("block", m.block);
    c.Field("position", m.position);
    c.Field("version", m.version);
  }
  friend bool operator==(const BlockReference&, const BlockReference&) = default;
};

inline constexpr uint32_t kReferencesMax = 128;

struct GetRefsArgs {
  static constexpr Proc kProc = Proc::kGetRefs;

  FileHandle filehandle;
  StateId state_id;
  uint64_t offset = 0;
  uint32_t count = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("offset", m.offset);
    c.Field("count", m.count);
    c.Pad32("pad");
  }
  friend bool operator==(const GetRefsArgs&, const GetRefsArgs&) = default;
};

struct GetRefsRes {
  static constexpr Proc kProc = Proc::kGetRefs;

  std::vector<BlockReference> references;

  static void Fields(auto& m, auto& c) { c.Array("references", m.references, kReferencesMax); }
  friend bool operator==(const GetRefsRes&, const GetRefsRes&) = default;
};

// DAFS_PROC_EXPORT_CACHE (1042): where the cache of the export of `filehandle` is: the context and
// the addresses that an RDMA read on the session's reference channel names. They are valid until
// that channel ends. ILLEGAL_STATE: the session has no reference channel. NOTSUPP: the server
// exports no cache, or not of this export, or not to this client.
//
//   req  0 filehandle 64; 64 bytes
//   res  0 u32 context, 4 u32 block_bytes, 8 u64 address, 16 u64 size_bytes; 24 bytes
struct ExportCacheArgs {
  static constexpr Proc kProc = Proc::kExportCache;

  FileHandle filehandle;

  static void Fields(auto& m, auto& c) { c.Field("filehandle", m.filehandle); }
  friend bool operator==(const ExportCacheArgs&, const ExportCacheArgs&) = default;
};

struct ExportCacheRes {
  static constexpr Proc kProc = Proc::kExportCache;

  uint32_t context = 0;
  uint32_t block_bytes = 0;  // kExportedBlock; a client that expects another size uses no cache
  uint64_t address = 0;
  uint64_t size_bytes = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("context", m.context);
    c.Field("block_bytes", m.block_bytes);
    c.Field("address", m.address);
    c.Field("size_bytes", m.size_bytes);
  }
  friend bool operator==(const ExportCacheRes&, const ExportCacheRes&) = default;
};

}  // namespace dafs::wire
