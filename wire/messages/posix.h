// Private procedures (R15) for operations of POSIX systems that the protocol lacks. A server
// without a procedure responds NOTSUPP. The layout follows WIRE 2: 64 bytes for a filehandle, a
// 4-byte offset for a name, fixed sections in multiples of 8.
// Values. Each struct lists its fields once, in wire order.
#pragma once

#include <cstdint>
#include <string>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// Modes of RENAME2, which replace the usual overwrite. A request has exactly one.
inline constexpr uint32_t kRenameNoReplace = 1;  // EXIST if the new name is taken
inline constexpr uint32_t kRenameExchange = 2;   // both names must exist and are exchanged

// DAFS_PROC_RENAME2 (1001): RENAME with flags, in one step. INVAL: other flags, or the exported
// file system does not support the flag. Other errors as for RENAME, with the status that the
// server's system reports.
//
//   req  0 sourcedir 64, 64 targetdir 64, 128 off -> oldname, 132 off -> newname, 136 u32 flags;
//        144 bytes
//   res  0 source 24, 24 target 24 (change infos); 48 bytes
struct Rename2Args {
  static constexpr Proc kProc = Proc::kRename2;

  FileHandle sourcedir;
  FileHandle targetdir;
  std::string oldname;
  std::string newname;
  uint32_t flags = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("sourcedir", m.sourcedir);
    c.Field("targetdir", m.targetdir);
    c.Name("oldname", m.oldname);
    c.Name("newname", m.newname);
    c.Field("flags", m.flags);
  }
  static auto& ChainFileHandle(auto& m) { return m.targetdir; }
  friend bool operator==(const Rename2Args&, const Rename2Args&) = default;
};

struct Rename2Res {
  static constexpr Proc kProc = Proc::kRename2;

  ChangeInfo source;
  ChangeInfo target;

  static void Fields(auto& m, auto& c) {
    c.Field("source", m.source);
    c.Field("target", m.target);
  }
  friend bool operator==(const Rename2Res&, const Rename2Res&) = default;
};

// DAFS_PROC_OPEN_EXECUTE (1002): OPEN_HANDLE for reading, for a caller that may read or execute the
// file. Errors as for OPEN_HANDLE.
//
//   req  0 filehandle 64, 64 off -> opaque<> owner; 72 bytes
//   res  0 filehandle 64, 64 opaque64 state_id; 72 bytes
struct OpenExecuteArgs {
  static constexpr Proc kProc = Proc::kOpenExecute;

  FileHandle filehandle;
  std::string owner;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.OpaqueBytes("owner", m.owner, kOwnerBound);
  }
  friend bool operator==(const OpenExecuteArgs&, const OpenExecuteArgs&) = default;
};

struct OpenExecuteRes {
  static constexpr Proc kProc = Proc::kOpenExecute;

  FileHandle filehandle;
  StateId state_id;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
  }
  friend bool operator==(const OpenExecuteRes&, const OpenExecuteRes&) = default;
};

// DAFS_PROC_MAKE_NODE (1003), for mknod(2): CREATE of a REG, BLK, CHR, SOCK or FIFO that has its
// mode from the start. Errors as for CREATE.
//
//   req  0 filehandle 64 (the directory), 64 off -> component, 68 u32 obj_type, 72 specdata 16
//        (BLK, CHR), 88 u32 mode; 96 bytes
//   res  0 filehandle 64, 64 change_info 24; 88 bytes
struct MakeNodeArgs {
  static constexpr Proc kProc = Proc::kMakeNode;

  FileHandle filehandle;
  std::string component;
  ObjectType obj_type = ObjectType::kInvalid;
  SpecData specdata;
  uint32_t mode = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Name("component", m.component);
    c.Field("obj_type", m.obj_type);
    c.Field("specdata", m.specdata);
    c.Field("mode", m.mode);
  }
  friend bool operator==(const MakeNodeArgs&, const MakeNodeArgs&) = default;
};

struct MakeNodeRes {
  static constexpr Proc kProc = Proc::kMakeNode;

  FileHandle filehandle;
  ChangeInfo change_info;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("change_info", m.change_info);
  }
  friend bool operator==(const MakeNodeRes&, const MakeNodeRes&) = default;
};

// The extensions that EXTENSIONS requests and grants. The first two are valid until the session
// ends; a new session must request them again.
inline constexpr uint64_t kExtensionByteNames = 1;  // names in requests are bytes (NameRule)
inline constexpr uint64_t kExtensionKeepAtime = 2;  // no READ or READDIR changes an access time
// The server honours kCacheHintKeepAtime in READ_INLINE and READ_DIRECT.
inline constexpr uint64_t kExtensionReadKeepsAtime = 4;
// A fact about the export of `filehandle`: the server maps all users to one. The client can then
// not derive the server's permissions from owners and modes.
inline constexpr uint64_t kExtensionSquashed = 8;
// The same for a directory above the exports. If all exports below it that admit the client map
// their users, the server grants kExtensionSquashed; if only some do, this bit.
inline constexpr uint64_t kExtensionSquashedInPart = 16;
// The server knows kLockAwaits and kLockOfProcess, and reports the waiter for which it reserves a
// range.
inline constexpr uint64_t kExtensionLockWaits = 32;
// The server heeds kShareWantOpenXorDelegation, and OPEN_DOWNGRADE of a delegation.
inline constexpr uint64_t kExtensionOpenXorDelegation = 64;
// The server heeds kChfAttributes and kChfOtherAttributes.
inline constexpr uint64_t kExtensionAttributesAfter = 128;
// The server has an exported cache for this client (wire/messages/references.h).
inline constexpr uint64_t kExtensionReferences = 256;
// A fact about the server: OWNER and OWNER_GROUP are names of its ID-mapping domain, and it prefers
// names in requests (R90).
inline constexpr uint64_t kExtensionOwnerNames = 512;

// DAFS_PROC_EXTENSIONS (1030): returns which of the `wanted` extensions the server grants, or which
// facts are true of the export. A server does not grant bits that it does not know. The category is
// Simple: it may follow LOOKUP in a chain. Errors as for ACCESS. An all-zero filehandle names no
// export.
//
//   req  0 filehandle 64, 64 u64 wanted; 72 bytes
//   res  0 u64 granted; 8 bytes
struct ExtensionsArgs {
  static constexpr Proc kProc = Proc::kExtensions;

  FileHandle filehandle;
  uint64_t wanted = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("wanted", m.wanted);
  }
  friend bool operator==(const ExtensionsArgs&, const ExtensionsArgs&) = default;
};

struct ExtensionsRes {
  static constexpr Proc kProc = Proc::kExtensions;

  uint64_t granted = 0;

  static void Fields(auto& m, auto& c) { c.Field("granted", m.granted); }
  friend bool operator==(const ExtensionsRes&, const ExtensionsRes&) = default;
};

}  // namespace dafs::wire
