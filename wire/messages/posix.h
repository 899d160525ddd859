// Private procedures (R15) for what POSIX systems can ask of a file server and the protocol has no
// words for. A server without one answers NOTSUPP. Their layout follows WIRE.md 2: 64 bytes for a
// filehandle, a 4-byte offset for a name, fixed sections in multiples of 8.
// Values. Each struct lists its fields once, in the order of the wire.
#pragma once

#include <cstdint>
#include <string>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// What RENAME2 may do in place of replacing: exactly one of these.
inline constexpr uint32_t kRenameNoReplace = 1;  // EXIST if the new name is taken
inline constexpr uint32_t kRenameExchange = 2;   // both names are there, and change places

// DAFS_PROC_RENAME2 (1001): RENAME with flags, in one step. INVAL: other flags, or the file system
// behind the export cannot; the others as RENAME, but the status that the server's system gives.
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

// DAFS_PROC_OPEN_EXECUTE (1002): OPEN_HANDLE for reading, to a caller who may read the file or
// execute it. Errors as OPEN_HANDLE.
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

// DAFS_PROC_MAKE_NODE (1003): mknod(2): CREATE of a REG, BLK, CHR, SOCK or FIFO with its mode from
// the first moment on. Errors as CREATE.
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

// What EXTENSIONS asks for and grants. The first two rows hold for the session until it ends, and a
// new session has to ask again.
inline constexpr uint64_t kExtensionByteNames = 1;  // names in requests are bytes (NameRule)
inline constexpr uint64_t kExtensionKeepAtime = 2;  // no READ or READDIR moves an access time
// The server heeds kCacheHintKeepAtime in READ_INLINE and READ_DIRECT.
inline constexpr uint64_t kExtensionReadKeepsAtime = 4;
// A fact of the export that `filehandle` lies in: the server maps all users to one. The client
// cannot tell from owners and modes what the server permits.
inline constexpr uint64_t kExtensionSquashed = 8;
// The same of a directory above the exports: of all exports below it that admit the client, the
// row above; of some, this one.
inline constexpr uint64_t kExtensionSquashedInPart = 16;

// DAFS_PROC_EXTENSIONS (1030): which of the `wanted` extensions the server grants, or are true of
// the export. Bits that a server does not know are not granted. Simple: it may follow LOOKUP in a
// chain. Errors: as ACCESS; an all-zero filehandle asks about no export.
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
