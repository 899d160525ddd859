// Messages that list directories.
// Spec: WIRE 9.4; draft 6.5.29, 6.5.30.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/attributes.h"
#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// direntry (6.5.29): one entry. `name` is the specification's name_offset; it is never empty. No
// entry has cookie 0, 1 or 2.
struct Direntry {
  static constexpr size_t kWireSize = 16;
  static constexpr size_t kWireAlign = 8;

  uint64_t cookie = 0;
  FileAttributes attrs;
  std::string name;

  static void Fields(auto& m, auto& c) {
    c.Field("cookie", m.cookie);
    c.Attributes("attrs", m.attrs);
    c.String("name_offset", m.name, kNameBound, kRequired);
  }
  friend bool operator==(const Direntry&, const Direntry&) = default;
};

// DAFS_PROC_READDIR_INLINE, spec 6.5.29. This struct allocates. Servers therefore build `entries`
// with DirentArrayBuilder, and clients read them with DirentReader (wire/codec/direct.h).
struct ReaddirInlineArgs {
  static constexpr Proc kProc = Proc::kReaddirInline;

  FileHandle filehandle;
  uint64_t cookie = 0;
  Verifier cookieverf;
  uint32_t dircount = 0;
  uint32_t maxcount = 0;
  uint64_t attr_request_bitmap = 0;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("cookie", m.cookie);
    c.Field("cookieverf", m.cookieverf);
    c.Field("dircount", m.dircount);
    c.Field("maxcount", m.maxcount);
    c.Field("attr_request_bitmap", m.attr_request_bitmap);
  }
  friend bool operator==(const ReaddirInlineArgs&, const ReaddirInlineArgs&) = default;
};

struct ReaddirInlineRes {
  static constexpr Proc kProc = Proc::kReaddirInline;

  Verifier cookieverf;
  bool eof = false;
  std::vector<Direntry> entries;

  static void Fields(auto& m, auto& c) {
    c.Field("cookieverf", m.cookieverf);
    c.Bool32("eof", m.eof);
    c.Array("entries", m.entries, kBoundedBySize);
  }
  friend bool operator==(const ReaddirInlineRes&, const ReaddirInlineRes&) = default;
};

// DAFS_PROC_READDIR_DIRECT, spec 6.5.30.
struct ReaddirDirectArgs {
  static constexpr Proc kProc = Proc::kReaddirDirect;

  FileHandle filehandle;
  uint64_t cookie = 0;
  Verifier cookieverf;
  uint32_t dircount = 0;
  uint32_t maxcount = 0;
  uint64_t attr_request_bitmap = 0;
  DirectOpBuffers readdir_data_buffers;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("cookie", m.cookie);
    c.Field("cookieverf", m.cookieverf);
    c.Field("dircount", m.dircount);
    c.Field("maxcount", m.maxcount);
    c.Field("attr_request_bitmap", m.attr_request_bitmap);
    c.Array("readdir_data_buffers", m.readdir_data_buffers, kBuffersMax, kRequired);
  }
  friend bool operator==(const ReaddirDirectArgs&, const ReaddirDirectArgs&) = default;
};

struct ReaddirDirectRes {
  static constexpr Proc kProc = Proc::kReaddirDirect;

  Verifier cookieverf;
  bool eof = false;
  Checksum direct_checksum;

  static void Fields(auto& m, auto& c) {
    c.Field("cookieverf", m.cookieverf);
    c.Bool32("eof", m.eof);
    c.Field("direct_checksum", m.direct_checksum);
  }
  friend bool operator==(const ReaddirDirectRes&, const ReaddirDirectRes&) = default;
};

}  // namespace dafs::wire
