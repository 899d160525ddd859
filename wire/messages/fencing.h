// Messages that read and change fencing lists.
// Spec: WIRE 9.4; draft 6.4.
// Values. Fields carry the specification's names, in its order; each struct lists them once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/protocol/procedures.h"
#include "wire/protocol/types.h"

namespace dafs::wire {

// DAFS_PROC_GET_FENCING_LIST, spec 6.4.1. With an empty list, every client has access.
struct GetFencingListArgs {
  static constexpr Proc kProc = Proc::kGetFencingList;

  FileHandle filehandle;

  static void Fields(auto& m, auto& c) { c.Field("filehandle", m.filehandle); }
  friend bool operator==(const GetFencingListArgs&, const GetFencingListArgs&) = default;
};

struct GetFencingListRes {
  static constexpr Proc kProc = Proc::kGetFencingList;

  std::vector<std::string> fence_list;

  static void Fields(auto& m, auto& c) { c.Fences("fence_list", m.fence_list); }
  friend bool operator==(const GetFencingListRes&, const GetFencingListRes&) = default;
};

// DAFS_PROC_SET_FENCING_LIST, spec 6.4.2.
struct SetFencingListArgs {
  static constexpr Proc kProc = Proc::kSetFencingList;

  FileHandle filehandle;
  FenceObject object = FenceObject::kFile;
  FenceAccess access = FenceAccess::kAllow;
  FenceUpdate update = FenceUpdate::kOverwrite;
  std::vector<std::string> fence_list;

  static void Fields(auto& m, auto& c) {
    c.Field("filehandle", m.filehandle);
    c.Field("object", m.object);
    c.Field("access", m.access);
    c.Field("update", m.update);
    c.Fences("fence_list", m.fence_list);
  }
  friend bool operator==(const SetFencingListArgs&, const SetFencingListArgs&) = default;
};

struct SetFencingListRes {
  static constexpr Proc kProc = Proc::kSetFencingList;
  static void Fields(auto&, auto&) {}
  friend bool operator==(const SetFencingListRes&, const SetFencingListRes&) = default;
};

}  // namespace dafs::wire
