// Messages about attributes and access rights.
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

// DAFS_PROC_ACCESS, spec 6.5.2.
struct AccessArgs {
  static constexpr Proc kProc = Proc::kAccess;

  FileHandle filehandle;
  uint32_t access = 0;  // kAccess... bits

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("access", m.access);
  }
  friend bool operator==(const AccessArgs&, const AccessArgs&) = default;
};

struct AccessRes {
  static constexpr Proc kProc = Proc::kAccess;

  uint32_t supported = 0;
  uint32_t access = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("supported", m.supported);
    c.Field("access", m.access);
  }
  friend bool operator==(const AccessRes&, const AccessRes&) = default;
};

// DAFS_PROC_GET_FSATTR, spec 6.5.15.
struct GetFsattrArgs {
  static constexpr Proc kProc = Proc::kGetFsattr;

  FileHandle filehandle;
  uint64_t attr_request_bitmap = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("attr_request_bitmap", m.attr_request_bitmap);
  }
  friend bool operator==(const GetFsattrArgs&, const GetFsattrArgs&) = default;
};

struct GetFsattrRes {
  static constexpr Proc kProc = Proc::kGetFsattr;

  FsAttributes obj_attributes;

  static void Fields(auto& m, auto& c) { c.Attributes("obj_attributes", m.obj_attributes); }
  friend bool operator==(const GetFsattrRes&, const GetFsattrRes&) = default;
};

// DAFS_PROC_GETATTR_INLINE, spec 6.5.13.
struct GetattrInlineArgs {
  static constexpr Proc kProc = Proc::kGetattrInline;

  FileHandle filehandle;
  uint64_t attr_request_bitmap = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("attr_request_bitmap", m.attr_request_bitmap);
  }
  friend bool operator==(const GetattrInlineArgs&, const GetattrInlineArgs&) = default;
};

struct GetattrInlineRes {
  static constexpr Proc kProc = Proc::kGetattrInline;

  FileAttributes obj_attributes;

  static void Fields(auto& m, auto& c) { c.Attributes("obj_attributes", m.obj_attributes); }
  friend bool operator==(const GetattrInlineRes&, const GetattrInlineRes&) = default;
};

// DAFS_PROC_GETATTR_DIRECT, spec 6.5.14.
struct GetattrDirectArgs {
  static constexpr Proc kProc = Proc::kGetattrDirect;

  FileHandle filehandle;
  uint64_t attr_request_bitmap = 0;
  DirectOpBuffer data_buffer;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("attr_request_bitmap", m.attr_request_bitmap);
    c.Field("data_buffer", m.data_buffer);
  }
  friend bool operator==(const GetattrDirectArgs&, const GetattrDirectArgs&) = default;
};

struct GetattrDirectRes {
  static constexpr Proc kProc = Proc::kGetattrDirect;

  Checksum direct_checksum;

  static void Fields(auto& m, auto& c) { c.Field("direct_checksum", m.direct_checksum); }
  friend bool operator==(const GetattrDirectRes&, const GetattrDirectRes&) = default;
};

// DAFS_PROC_SETATTR_INLINE, spec 6.5.35. The result has the attributes that were set. Most error
// responses have it too (WIRE 9.3).
struct SetattrInlineArgs {
  static constexpr Proc kProc = Proc::kSetattrInline;

  FileHandle filehandle;
  StateId state_id;
  FileAttributes obj_attributes;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Attributes("obj_attributes", m.obj_attributes);
  }
  friend bool operator==(const SetattrInlineArgs&, const SetattrInlineArgs&) = default;
};

struct SetattrInlineRes {
  static constexpr Proc kProc = Proc::kSetattrInline;

  uint64_t attr_request_bitmap = 0;

  static void Fields(auto& m, auto& c) { c.Field("attr_request_bitmap", m.attr_request_bitmap); }
  friend bool operator==(const SetattrInlineRes&, const SetattrInlineRes&) = default;
};

// DAFS_PROC_SETATTR_DIRECT, spec 6.5.36. The buffer contains exactly one attributes structure.
struct SetattrDirectArgs {
  static constexpr Proc kProc = Proc::kSetattrDirect;

  FileHandle filehandle;
  StateId state_id;
  Checksum direct_checksum;
  DirectOpBuffer obj_attributes;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("state_id", m.state_id);
    c.Field("direct_checksum", m.direct_checksum);
    c.Field("obj_attributes", m.obj_attributes);
  }
  friend bool operator==(const SetattrDirectArgs&, const SetattrDirectArgs&) = default;
};

struct SetattrDirectRes {
  static constexpr Proc kProc = Proc::kSetattrDirect;

  uint64_t attr_request_bitmap = 0;

  static void Fields(auto& m, auto& c) { c.Field("attr_request_bitmap", m.attr_request_bitmap); }
  friend bool operator==(const SetattrDirectRes&, const SetattrDirectRes&) = default;
};

// DAFS_PROC_NVERIFY, spec 6.5.23.
struct NverifyArgs {
  static constexpr Proc kProc = Proc::kNverify;

  FileHandle filehandle;
  FileAttributes obj_attributes;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Attributes("obj_attributes", m.obj_attributes);
  }
  friend bool operator==(const NverifyArgs&, const NverifyArgs&) = default;
};

struct NverifyRes {
  static constexpr Proc kProc = Proc::kNverify;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const NverifyRes&, const NverifyRes&) = default;
};

// DAFS_PROC_VERIFY, spec 6.5.37.
struct VerifyArgs {
  static constexpr Proc kProc = Proc::kVerify;

  FileHandle filehandle;
  FileAttributes obj_attributes;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Attributes("obj_attributes", m.obj_attributes);
  }
  friend bool operator==(const VerifyArgs&, const VerifyArgs&) = default;
};

struct VerifyRes {
  static constexpr Proc kProc = Proc::kVerify;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const VerifyRes&, const VerifyRes&) = default;
};

}  // namespace dafs::wire
