// Messages about names: lookup, create, link, remove, rename, symbolic links. NULL is here too,
// although it is not about a name.
// Spec: WIRE 9.4; draft 6.5.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/attributes.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_NULL, spec 6.5.1.
struct NullArgs {
  static constexpr Proc kProc = Proc::kNull;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const NullArgs&, const NullArgs&) = default;
};

struct NullRes {
  static constexpr Proc kProc = Proc::kNull;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const NullRes&, const NullRes&) = default;
};

// DAFS_PROC_CREATE, spec 6.5.9. `filehandle` is the parent directory. `attr` only with kDir.
struct CreateArgs {
  static constexpr Proc kProc = Proc::kCreate;

  FileHandle filehandle;
  std::string component;
  ObjectType obj_type = ObjectType::kInvalid;
  std::string linkdata;  // kLnk
  SpecData specdata;     // kBlk, kChr
  FileAttributes attr;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Name("component", m.component);
    c.Field("obj_type", m.obj_type);
    c.Union("create_type", 16, 8, [&] {
      if (m.obj_type == ObjectType::kLnk) {
        c.String("linkdata", m.linkdata, kLinkDataBound, kRequired);
      } else if (m.obj_type == ObjectType::kBlk || m.obj_type == ObjectType::kChr) {
        c.Field("specdata", m.specdata);
      }
    });
    c.Attributes("attr", m.attr);
  }
  friend bool operator==(const CreateArgs&, const CreateArgs&) = default;
};

struct CreateRes {
  static constexpr Proc kProc = Proc::kCreate;

  FileHandle filehandle;
  ChangeInfo change_info;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("change_info", m.change_info);
  }
  friend bool operator==(const CreateRes&, const CreateRes&) = default;
};

// DAFS_PROC_GET_ROOT_HANDLE, spec 6.5.12.
struct GetRootHandleArgs {
  static constexpr Proc kProc = Proc::kGetRootHandle;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const GetRootHandleArgs&, const GetRootHandleArgs&) = default;
};

struct GetRootHandleRes {
  static constexpr Proc kProc = Proc::kGetRootHandle;

  FileHandle root_handle;

  static void Fields(auto& m, auto& c) { c.Field("root_handle", m.root_handle); }
  static auto& ChainFileHandle(auto& m) { return m.root_handle; }
  friend bool operator==(const GetRootHandleRes&, const GetRootHandleRes&) = default;
};

// DAFS_PROC_LINK, spec 6.5.17. Links source_object into the directory destination_object.
struct LinkArgs {
  static constexpr Proc kProc = Proc::kLink;

  FileHandle source_object;
  FileHandle destination_object;
  std::string newname;

  static void Fields(auto& m, auto& c) {
    c.Field("source_object", m.source_object);
    c.Field("destination_object", m.destination_object);
    c.Name("newname", m.newname);
  }
  static auto& ChainFileHandle(auto& m) { return m.destination_object; }
  friend bool operator==(const LinkArgs&, const LinkArgs&) = default;
};

struct LinkRes {
  static constexpr Proc kProc = Proc::kLink;

  ChangeInfo change_info;

  static void Fields(auto& m, auto& c) { c.Field("change_info", m.change_info); }
  friend bool operator==(const LinkRes&, const LinkRes&) = default;
};

// DAFS_PROC_LOOKUP, spec 6.5.21.
struct LookupArgs {
  static constexpr Proc kProc = Proc::kLookup;

  FileHandle directory;
  Pathname path;

  static void Fields(auto& m, auto& c) {
    c.Field("directory", m.directory);
    c.Path("path", m.path);
  }
  static auto& ChainFileHandle(auto& m) { return m.directory; }
  friend bool operator==(const LookupArgs&, const LookupArgs&) = default;
};

struct LookupRes {
  static constexpr Proc kProc = Proc::kLookup;

  FileHandle filehandle;
  uint32_t component_count = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("component_count", m.component_count);
  }
  friend bool operator==(const LookupRes&, const LookupRes&) = default;
};

// DAFS_PROC_LOOKUPP, spec 6.5.22.
struct LookuppArgs {
  static constexpr Proc kProc = Proc::kLookupp;

  FileHandle filehandle;

  static void Fields(auto& m, auto& c) { c.Field("filehandle", m.filehandle); }
  friend bool operator==(const LookuppArgs&, const LookuppArgs&) = default;
};

struct LookuppRes {
  static constexpr Proc kProc = Proc::kLookupp;

  FileHandle filehandle;

  static void Fields(auto& m, auto& c) { c.Field("filehandle", m.filehandle); }
  friend bool operator==(const LookuppRes&, const LookuppRes&) = default;
};

// DAFS_PROC_OPENATTR, spec 6.5.25.
struct OpenattrArgs {
  static constexpr Proc kProc = Proc::kOpenattr;

  FileHandle filehandle;

  static void Fields(auto& m, auto& c) { c.Field("filehandle", m.filehandle); }
  friend bool operator==(const OpenattrArgs&, const OpenattrArgs&) = default;
};

struct OpenattrRes {
  static constexpr Proc kProc = Proc::kOpenattr;

  FileHandle filehandle;

  static void Fields(auto& m, auto& c) { c.Field("filehandle", m.filehandle); }
  friend bool operator==(const OpenattrRes&, const OpenattrRes&) = default;
};

// DAFS_PROC_READLINK_INLINE, spec 6.5.31.
struct ReadlinkInlineArgs {
  static constexpr Proc kProc = Proc::kReadlinkInline;

  FileHandle filehandle;

  static void Fields(auto& m, auto& c) { c.Field("filehandle", m.filehandle); }
  friend bool operator==(const ReadlinkInlineArgs&, const ReadlinkInlineArgs&) = default;
};

struct ReadlinkInlineRes {
  static constexpr Proc kProc = Proc::kReadlinkInline;

  std::string link;

  static void Fields(auto& m, auto& c) { c.String("link", m.link, kLinkDataBound); }
  friend bool operator==(const ReadlinkInlineRes&, const ReadlinkInlineRes&) = default;
};

// DAFS_PROC_READLINK_DIRECT, spec 6.5.32.
struct ReadlinkDirectArgs {
  static constexpr Proc kProc = Proc::kReadlinkDirect;

  FileHandle filehandle;
  DirectOpBuffer buffer;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("buffer", m.buffer);
  }
  friend bool operator==(const ReadlinkDirectArgs&, const ReadlinkDirectArgs&) = default;
};

struct ReadlinkDirectRes {
  static constexpr Proc kProc = Proc::kReadlinkDirect;

  Checksum direct_checksum;

  static void Fields(auto& m, auto& c) { c.Field("direct_checksum", m.direct_checksum); }
  friend bool operator==(const ReadlinkDirectRes&, const ReadlinkDirectRes&) = default;
};

// DAFS_PROC_REMOVE, spec 6.5.33. `filehandle` is the parent directory.
struct RemoveArgs {
  static constexpr Proc kProc = Proc::kRemove;

  FileHandle filehandle;
  std::string target;
  RemoveMode remove_mode = RemoveMode::kUncheckedRemove;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Name("target", m.target);
    c.Field("remove_mode", m.remove_mode);
  }
  friend bool operator==(const RemoveArgs&, const RemoveArgs&) = default;
};

struct RemoveRes {
  static constexpr Proc kProc = Proc::kRemove;

  ChangeInfo change_info;

  static void Fields(auto& m, auto& c) { c.Field("change_info", m.change_info); }
  friend bool operator==(const RemoveRes&, const RemoveRes&) = default;
};

// DAFS_PROC_RENAME, spec 6.5.34.
struct RenameArgs {
  static constexpr Proc kProc = Proc::kRename;

  FileHandle sourcedir;
  FileHandle targetdir;
  std::string oldname;
  std::string newname;

  static void Fields(auto& m, auto& c) {
    c.Field("sourcedir", m.sourcedir);
    c.Field("targetdir", m.targetdir);
    c.Name("oldname", m.oldname);
    c.Name("newname", m.newname);
  }
  static auto& ChainFileHandle(auto& m) { return m.targetdir; }
  friend bool operator==(const RenameArgs&, const RenameArgs&) = default;
};

struct RenameRes {
  static constexpr Proc kProc = Proc::kRename;

  ChangeInfo source;
  ChangeInfo target;

  static void Fields(auto& m, auto& c) {
    c.Field("source", m.source);
    c.Field("target", m.target);
  }
  friend bool operator==(const RenameRes&, const RenameRes&) = default;
};

}  // namespace dafs::wire
